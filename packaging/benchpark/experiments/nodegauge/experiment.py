# nodegauge for Benchpark: copy this folder to var/exp_repo/experiments, and packaging/ramble/applications/nodegauge and
# the Spack package to repo/nodegauge.

from benchpark.directives import variant
from benchpark.experiment import Experiment


class Nodegauge(Experiment):
    variant("workload", default="stream", values=("stream", "hpl", "io", "run"), description="command of nodegauge")
    variant("budget", default="30", description="seconds of a run, with set-up and checks")

    def compute_applications_section(self):
        name = self.spec.name
        workload = self.spec.variants["workload"][0]
        budget = self.spec.variants["budget"][0]
        return {
            name: {
                "workloads": {
                    workload: {
                        "experiments": {
                            f"{name}_{workload}_{{n_nodes}}": {
                                "variants": {"package_manager": "spack"},
                                "variables": {
                                    "env_name": name,
                                    "budget": budget,
                                    "processes_per_node": "1",
                                    "n_ranks": "1",
                                    "n_nodes": "1",
                                },
                            }
                        }
                    }
                }
            }
        }

    def compute_spack_section(self):
        # One file without dependencies: neither MPI nor BLAS is built.
        name = self.spec.name
        return {
            "packages": {name: {"pkg_spec": name}},
            "environments": {name: {"packages": [name]}},
        }
