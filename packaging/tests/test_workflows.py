"""Tools that run nodegauge on many nodes: Ramble, Benchpark, ReFrame, Ansible, Kubernetes."""

import json
import os
import re
import shutil
import sys

from common import ARCHIVE, FIGURE, FILE, ROOT, VERSION, PackageTest, checkout, digest, program, tools

EXAMPLE = ROOT / "docs/examples/reframe_nodegauge.py"


class WithProgram(PackageTest):
    """Tests in which nodegauge is on PATH."""

    def setUp(self):
        super().setUp()
        folder = self.work / "bin"
        folder.mkdir()
        (folder / "nodegauge").symlink_to(FILE)
        self.environment["PATH"] = f"{folder}:{self.environment['PATH']}"


#: Golden run of each workload; the last one has no valid figure.
WORKLOADS = {"stream": "stream", "hpl": "hpl", "io": "io", "run": "run", "invalid": "stream-invalid"}


class Ramble(WithProgram):
    def setUp(self):
        super().setUp()
        root = checkout("RAMBLE_ROOT", "Ramble of Google (not the ramble of PyPI)")
        python = tools("deprecation", "tqdm") / "python"
        variables = {"SPACK_PYTHON": python, "RAMBLE_PYTHON": python, "RAMBLE_USER_CONFIG_PATH": self.home / "config"}
        self.ramble = lambda *words: self.run_in(python, root / "bin/ramble", *words, **variables)
        self.settings = self.recipes() / "ramble/ramble.yaml"
        self.ramble("repo", "add", self.settings.parent)
        self.workspace = self.work / "workspace"

    def set_up(self):
        """Makes the workspace of the settings."""
        self.settings.write_text(self.settings.read_text().replace("/usr/local", str(self.work)))
        self.ramble("workspace", "create", "-d", self.workspace, "-c", self.settings)
        self.ramble("-D", self.workspace, "workspace", "setup", "--dry-run")
        self.ramble("-D", self.workspace, "workspace", "setup")

    def analyze(self):
        """Returns the status and the figures of each experiment, by the last part of its name."""
        self.ramble("-D", self.workspace, "workspace", "analyze", "-f", "json")
        (results,) = [path for path in self.workspace.glob("results.*.json") if not path.is_symlink()]
        found = {}
        for one in json.loads(results.read_text())["experiments"]:
            figures = {figure["name"]: figure for context in one.get("CONTEXTS", []) for figure in context["foms"]}
            found[one["name"].rsplit(".", 1)[-1]] = (one["RAMBLE_STATUS"], figures)
        return found

    def test_workspace_is_set_up_and_figures_are_found(self):
        self.set_up()
        self.assertIn("one_thread", self.ramble("-D", self.workspace, "workspace", "info"))
        (script,) = self.workspace.glob("experiments/nodegauge/stream/one_thread/execute_experiment")
        text = script.read_text()
        self.assertIn("bin/nodegauge stream --budget 10 --no-save", text)
        # The arrays of this test are small.
        script.write_text(text.replace("--budget 10", " ".join(FIGURE[1:5])))
        self.run_in("sh", script)
        status, figures = self.analyze()["one_thread"]
        self.assertEqual(figures["triad best"]["units"], "GB/s")
        self.assertGreater(float(figures["triad best"]["value"]), 0)
        self.assertEqual(status, "SUCCESS")

    def test_figures_of_every_workload_are_found_and_invalid_ones_fail(self):
        workloads = {name: {"experiments": {name: {}}} for name in WORKLOADS if name != "invalid"}
        workloads["stream"]["experiments"]["invalid"] = {}
        settings = self.settings.read_text()
        head = settings[: settings.index("    nodegauge:\n      workloads:")]
        software = settings[settings.index("  software:") :]
        self.settings.write_text(head + "    nodegauge: " + json.dumps({"workloads": workloads}) + "\n" + software)
        self.set_up()
        for name, golden in WORKLOADS.items():
            (script,) = self.workspace.glob(f"experiments/nodegauge/*/{name}/execute_experiment")
            # The program prints the page of a recorded run.
            page, csv = (ROOT / "tests/golden" / golden / file for file in ("page.txt", "record.csv"))
            stand_in = f"{self.work}/bin/stand-in-{name}"
            with open(stand_in, "w") as file:
                file.write(f'#!/bin/sh\nwhile [ "$1" != --csv ]; do shift; done\ncp {csv} "$2"\ncat {page}\n')
            os.chmod(stand_in, 0o755)
            text = script.read_text()
            self.assertIn(f"{self.work}/bin/nodegauge", text)
            script.write_text(text.replace(f"{self.work}/bin/nodegauge", stand_in))
            self.run_in("sh", script)
        found = self.analyze()
        expected = {**dict.fromkeys(WORKLOADS, "SUCCESS"), "invalid": "FAILED"}
        self.assertEqual({name: status for name, (status, _) in found.items()}, expected)

        def value(name, figure):
            return float(found[name][1][figure]["value"])

        self.assertGreater(value("stream", "triad median"), 1)
        self.assertEqual(value("hpl", "rating"), 1.5)
        self.assertEqual(value("run", "rating"), 15.5)
        self.assertEqual(value("run", "triad best"), 6.384)
        self.assertEqual(value("io", "write cached file 65536 block 4096"), 1095461615.5965748)
        self.assertGreater(value("run", "read direct file 16777216 block 1048576"), 1e9)
        self.assertLess(value("run", "latency message 8 time"), 1e-6)
        with (ROOT / "tests/golden/io/record.csv").open() as file:
            self.assertEqual(len(found["io"][1]), len(file.readlines()) - 1)


class Benchpark(WithProgram):
    def test_experiment_is_made(self):
        root = checkout("BENCHPARK_ROOT", "Benchpark")
        ramble = checkout("RAMBLE_ROOT", "Ramble of Google")
        python = tools("pyyaml", "jinja2") / "python"
        # Benchpark looks for both in the home folder before it downloads them; Spack is not used to make an experiment.
        kept = self.home / ".benchpark"
        (kept / "spack").mkdir(parents=True)
        (kept / "ramble").symlink_to(ramble)
        copy = self.work / "benchpark"
        shutil.copytree(root, copy, symlinks=True, ignore=shutil.ignore_patterns(".git"))
        shutil.copytree(self.recipes() / "benchpark/experiments/nodegauge", copy / "var/exp_repo/experiments/nodegauge")
        # Same as `benchpark experiment init`, which also loads the schema of one version of Spack.
        script = (
            "import sys\n"
            "import benchpark.spec\n"
            "spec = benchpark.spec.ExperimentSpec('nodegauge workload=hpl budget=60').concretize()\n"
            "spec.experiment.write_ramble_dict(sys.argv[1])\n"
        )
        made = self.work / "ramble.yaml"
        self.run_in(python, "-c", script, made, PYTHONPATH=copy / "lib")
        text = made.read_text()
        for part in ("nodegauge_hpl_{n_nodes}", "budget: '60'", "pkg_spec: nodegauge"):
            self.assertIn(part, text)


#: Check of a site with options and commands of its own.
DERIVED = """
import reframe as rfm
from nodegauge.reframe import nodegauge_stream


@rfm.simple_test
class derived(nodegauge_stream):
    valid_systems = ['*']
    valid_prog_environs = ['*']
    options = {options}
    executable_opts = ['--label', 'site=x']
    postrun_cmds = ['touch ended']
"""


class ReFrame(WithProgram):
    def test_checks_come_from_the_wheel_and_measure(self):
        reframe = tools("ReFrame-HPC>=4.6,<5") / "reframe"
        options = ",".join(FIGURE[1:5])
        words = ["-c", EXAMPLE, "-n", "NodegaugeStream", "-S", f"NodegaugeStream.options={options}"]
        variables = {"PYTHONPATH": ROOT / "packaging/python", "USER": "tester"}
        listed = self.run_in(reframe, "--nocolor", "-c", EXAMPLE, "-l", **variables)
        for check in ("NodegaugeStream", "NodegaugeHpl", "NodegaugeMpi"):
            self.assertIn(check, listed)
        ran = self.run_in(reframe, "--nocolor", *words, "-r", "--performance-report", **variables)
        self.assertIn("PASSED", ran)
        self.assertRegex(ran, r"triad")

    def test_options_and_commands_of_a_derived_check_stay(self):
        reframe = tools("ReFrame-HPC>=4.6,<5") / "reframe"
        check = self.work / "derived.py"
        check.write_text(DERIVED.format(options=[*FIGURE[1:5], "--threads", "1,2", "--kernels", "triad"]))
        report = self.work / "report.json"
        variables = {"PYTHONPATH": ROOT / "packaging/python", "USER": "tester"}
        self.run_in(reframe, "--nocolor", "-c", check, "-r", f"--report-file={report}", "--keep-stage-files", **variables)
        (case,) = json.loads(report.read_text())["runs"][0]["testcases"]
        # Figures that differ only in the number of threads have names of their own.
        names = sorted(name.rsplit(":", 1)[1] for name in case["perfvalues"])
        self.assertEqual(names, ["triad_threads_1", "triad_threads_2"])
        (ended,) = self.work.rglob("ended")
        record = json.loads((ended.parent / "record.json").read_text())
        self.assertEqual(record["labels"], {"site": "x"})


class Ansible(WithProgram):
    def play(self, *more, succeeds=True, before=(), **changes):
        playbook = program("ansible-playbook", "ansible-core")
        roles = self.recipes() / "ansible" if not (self.work / "recipes").exists() else self.work / "recipes/ansible"
        extra = {
            "nodegauge_archive": str(ARCHIVE),
            "nodegauge_prefix": str(self.work / "prefix"),
            "nodegauge_command": FIGURE[0],
            "nodegauge_options": FIGURE[1:5],
            **changes,
        }
        words = [*before, playbook, "-i", "n01,", "-c", "local", "-e", json.dumps(extra), *more, roles / "measure.yml"]
        variables = {"ANSIBLE_NOCOLOR": "1", "ANSIBLE_PYTHON_INTERPRETER": sys.executable}
        # The user of this test installs below a folder of its own.
        return self.run_in(*words, "-e", "ansible_become=false", succeeds=succeeds, **variables)

    def test_role_installs_measures_and_fetches_the_record(self):
        self.play()
        record = json.loads((self.work / "recipes/ansible/records/n01.json").read_text())
        self.assertEqual(record["schema"], "nodegauge/1")
        self.assertTrue((self.work / "prefix/share/man/man1/nodegauge.1.gz").is_file())
        # The second time, nothing is installed.
        self.assertRegex(self.play(nodegauge_command=""), r"changed=0")

    def test_role_replaces_another_version_and_keeps_modes(self):
        prefix = self.work / "prefix"
        (prefix / "bin").mkdir(parents=True)
        (prefix / "bin/nodegauge").write_text("#!/bin/sh\necho nodegauge 0.0.1\n")
        prefix.chmod(0o2775)
        (prefix / "bin").chmod(0o2775)
        self.play(nodegauge_command="")
        self.assertEqual(digest(prefix / "bin/nodegauge"), digest(FILE))
        self.assertEqual([oct(folder.stat().st_mode & 0o7777) for folder in (prefix, prefix / "bin")], ["0o2775"] * 2)

    def test_units_have_the_path_of_the_program(self):
        units = self.work / "units"
        units.mkdir()
        self.play(nodegauge_command="", nodegauge_units=str(units))
        self.assertIn(f"\nExecStart={self.work}/prefix/bin/nodegauge check ", (units / "nodegauge-check.service").read_text())
        self.assertTrue((units / "nodegauge-check.timer").is_file())

    def test_other_checksums_and_processors_are_refused(self):
        self.assertIn("is not the file with the checksum", self.play(nodegauge_sha256="00", succeeds=False))
        other = self.play(before=[program("setarch", "util-linux"), "i686"], succeeds=False)
        self.assertIn("there is no tested binary of nodegauge for i386", other)


class Kubernetes(WithProgram):
    def test_job_is_valid_and_its_command_runs(self):
        python = tools("kubernetes-validate") / "python"
        manifest = self.recipes() / "kubernetes/job.yaml"
        script = (
            "import sys, json, yaml, kubernetes_validate\n"
            "job = yaml.safe_load(open(sys.argv[1]))\n"
            "for version in kubernetes_validate.major_minor_versions()[-4:] if hasattr(kubernetes_validate, 'major_minor_versions') else ['1.31']:\n"
            "    kubernetes_validate.validate(job, version, strict=True)\n"
            "print(json.dumps(job))\n"
        )
        job = json.loads(self.run_in(python, "-W", "ignore", "-c", script, manifest).splitlines()[-1])
        container = job["spec"]["template"]["spec"]["containers"][0]
        self.assertEqual(container["image"], f"registry.example.org/nodegauge:{VERSION}")
        self.assertEqual(container["resources"]["requests"], container["resources"]["limits"])
        # Exit codes of nodegauge end a pod for good, and not the other pods.
        (rule,) = job["spec"]["podFailurePolicy"]["rules"]
        self.assertEqual((rule["action"], rule["onExitCodes"]["values"]), ("FailIndex", [1, 2, 3]))
        self.assertNotIn("backoffLimit", job["spec"])
        # The user of the pod, without capabilities, measures.
        pod = job["spec"]["template"]["spec"]["securityContext"]
        self.assertEqual((pod["runAsNonRoot"], pod["seccompProfile"]["type"]), (True, "RuntimeDefault"))
        self.assertEqual(container["securityContext"]["capabilities"], {"drop": ["ALL"]})
        words = [word.replace("$(NODE_NAME)", "n01") for word in container["args"]]
        words[words.index("--budget") : words.index("--budget") + 2] = FIGURE[1:5]
        words[0] = FIGURE[0]
        copy = self.work / "nodegauge"
        shutil.copyfile(FILE, copy)
        copy.chmod(0o755)
        self.work.chmod(0o755)
        user = [f"--reuid={pod['runAsUser']}", f"--regid={pod['runAsGroup']}", "--clear-groups", "--no-new-privs"]
        as_user = ["setpriv", *user, "--bounding-set=-all", "--inh-caps=-all"] if os.getuid() == 0 else []
        record = json.loads(self.run_in(*as_user, copy, *words, HOME="/tmp"))
        self.assertEqual(record["labels"], {"node": "n01"})
        # Output of kubectl for two pods, whose host names are those of the pods, with a line of an error.
        logs = "error: no figure\n"
        for at, node in enumerate(("n01", "n02")):
            machine = {**record["machine"], "host": f"nodegauge-{at}"}
            logs += json.dumps({**record, "id": record["id"][:-1] + str(at), "machine": machine, "labels": {"node": node}}) + "\n"
        (self.work / "pods.txt").write_text(logs)
        # The command of the file names the nodes.
        (command,) = re.findall(r"(?m)^#   (nodegauge .*)$", manifest.read_text())
        ranked = self.run_in("sh", "-c", command)
        self.assertIn("2 nodes", ranked)
        self.assertRegex(ranked, r"(?m)^n01 ")
        self.assertRegex(ranked, r"(?m)^n02 ")


class Dashboard(WithProgram):
    def test_runs_of_several_labels_are_joined_one_to_one(self):
        dashboard = json.loads((ROOT / "docs/examples/grafana-dashboard.json").read_text())
        queries = [target["expr"] for panel in dashboard["panels"] for target in panel["targets"]]
        (query,) = [query for query in queries if "group_left" in query]
        ignored = re.search(r"ignoring\(([^)]*)\)", query)
        self.assertIsNotNone(ignored, query)
        series = {"nodegauge_run_info": [], "nodegauge_run_complete": []}
        record = json.loads((ROOT / "tests/golden/io/record.json").read_text())
        for at, disk in enumerate(("old", "new")):
            one = {**record, "id": record["id"][:-1] + str(at), "labels": {"disk": disk}}
            (self.work / f"{disk}.json").write_text(json.dumps(one))
            text = self.run_in("nodegauge", "report", f"{disk}.json", "--format", "openmetrics")
            for name, labels in re.findall(r"(?m)^(\w+)\{(.*)\} ", text):
                if name in series:
                    pairs = dict(re.findall(r'(\w+)="([^"]*)"', labels))
                    series[name].append({key: value for key, value in pairs.items() if key not in ignored[1].split(", ")})
        runs, complete = series.values()
        # Each run has exactly one series of completeness.
        self.assertEqual([complete.count(run) for run in runs], [1, 1])
