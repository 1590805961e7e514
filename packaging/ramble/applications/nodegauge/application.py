# nodegauge for Ramble: ramble repo add packaging/ramble

import os

from ramble.appkit import *
from ramble.expander import Expander


class Nodegauge(ExecutableApplication):
    """nodegauge measures what a compute node sustains: memory bandwidth (STREAM), floating point (HPL), messages and
    files. One process per node; it chooses threads, pages, stores and loops by measurement."""

    name = "nodegauge"

    tags("benchmark-app", "mini-app", "memory-benchmark", "single-node")

    software_spec("nodegauge", pkg_spec="nodegauge", package_manager="spack*")
    required_package("nodegauge", package_manager="spack*")

    for command in ("stream", "hpl", "io", "run"):
        executable(
            command,
            "{nodegauge_path}/bin/nodegauge " + command + " --budget {budget} --no-save --label experiment={experiment_name} {options}",
            use_mpi=False,
            output_capture=OUTPUT_CAPTURE.ALL,
        )
        workload(command, executable=command)

    workload_variable(
        "budget",
        default="30",
        description="Time of a run in seconds, with set-up and checks",
        workloads=["stream", "hpl", "io", "run"],
    )
    workload_variable(
        "options",
        default="--color never",
        description="Further options of the command",
        workloads=["stream", "hpl", "io", "run"],
    )

    log_file = os.path.join(
        Expander.expansion_str("experiment_run_dir"), Expander.expansion_str("experiment_name") + ".out"
    )

    # Line of the table: kernel, best, median, quantiles.
    for kernel in ("copy", "scale", "add", "triad"):
        for place, statistic in enumerate(("best", "median")):
            figure_of_merit(
                f"{kernel} {statistic}",
                log_file=log_file,
                fom_regex=rf"^{kernel}" + r"\s+[0-9.]+" * place + rf"\s+(?P<{kernel}_{statistic}>[0-9.]+)",
                group_name=f"{kernel}_{statistic}",
                units="GB/s",
            )
    figure_of_merit(
        "rating",
        log_file=log_file,
        fom_regex=r"^rating\s+(?P<rating>[0-9.]+)",
        group_name="rating",
        units="GFLOP/s",
    )

    # An invalid figure has no value; nodegauge also exits with 1.
    success_criteria("has a figure", mode="string", match=r"^(triad|rating|cached|direct|result)\b.*", file=log_file)
