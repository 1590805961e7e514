"""Tools that run nodegauge on many nodes: Ramble, Benchpark, ReFrame, Ansible, Kubernetes."""

import json
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


class Ramble(WithProgram):
    def test_workspace_is_set_up_and_figures_are_found(self):
        root = checkout("RAMBLE_ROOT", "Ramble of Google (not the ramble of PyPI)")
        python = tools("deprecation", "tqdm") / "python"
        recipes = self.recipes() / "ramble"
        variables = {"SPACK_PYTHON": python, "RAMBLE_PYTHON": python, "RAMBLE_USER_CONFIG_PATH": self.home / "config"}
        ramble = (python, root / "bin/ramble")
        self.run_in(*ramble, "repo", "add", recipes, **variables)
        workspace = self.work / "workspace"
        settings = recipes / "ramble.yaml"
        settings.write_text(settings.read_text().replace("/usr/local", str(self.work)))
        self.run_in(*ramble, "workspace", "create", "-d", workspace, "-c", recipes / "ramble.yaml", **variables)
        self.run_in(*ramble, "-D", workspace, "workspace", "setup", "--dry-run", **variables)
        info = self.run_in(*ramble, "-D", workspace, "workspace", "info", **variables)
        self.assertIn("one_thread", info)
        self.run_in(*ramble, "-D", workspace, "workspace", "setup", **variables)
        (script,) = workspace.glob("experiments/nodegauge/stream/one_thread/execute_experiment")
        text = script.read_text()
        self.assertIn("bin/nodegauge stream --budget 10 --no-save", text)
        # The arrays of this test are small.
        script.write_text(text.replace("--budget 10", " ".join(FIGURE[1:5])))
        self.run_in("sh", script)
        self.run_in(*ramble, "-D", workspace, "workspace", "analyze", "-f", "json", **variables)
        (results,) = [path for path in workspace.glob("results.*.json") if not path.is_symlink()]
        measured = json.loads(results.read_text())["experiments"]
        one = next(experiment for experiment in measured if "one_thread" in experiment["name"])
        figures = {figure["name"]: figure for context in one["CONTEXTS"] for figure in context["foms"]}
        self.assertEqual(figures["triad best"]["units"], "GB/s")
        self.assertGreater(float(figures["triad best"]["value"]), 0)
        self.assertEqual(one["RAMBLE_STATUS"], "SUCCESS")


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


class Ansible(WithProgram):
    def play(self, *more, succeeds=True):
        playbook = program("ansible-playbook", "ansible-core")
        roles = self.recipes() / "ansible" if not (self.work / "recipes").exists() else self.work / "recipes/ansible"
        extra = {
            "nodegauge_archive": str(ARCHIVE),
            "nodegauge_sha256": digest(ARCHIVE),
            "nodegauge_prefix": str(self.work / "prefix"),
            "nodegauge_command": FIGURE[0],
            "nodegauge_options": FIGURE[1:5],
            "nodegauge_records": str(self.work),
        }
        words = [playbook, "-i", "n01,", "-c", "local", "-e", json.dumps(extra), *more, roles / "measure.yml"]
        return self.run_in(*words, succeeds=succeeds, ANSIBLE_NOCOLOR="1", ANSIBLE_PYTHON_INTERPRETER=sys.executable)

    def test_role_installs_measures_and_fetches_the_record(self):
        self.play()
        record = json.loads((self.work / "n01.json").read_text())
        self.assertEqual(record["schema"], "nodegauge/1")
        self.assertTrue((self.work / "prefix/share/man/man1/nodegauge.1.gz").is_file())
        # The second time, nothing is installed.
        self.assertRegex(self.play("-e", "nodegauge_command="), r"changed=0")

    def test_other_checksums_and_processors_are_refused(self):
        self.assertIn("is not the file with the checksum", self.play("-e", "nodegauge_sha256=00", succeeds=False))
        arm = self.play("-e", "ansible_architecture=aarch64", succeeds=False)
        self.assertIn("there is no tested binary of nodegauge for aarch64", arm)


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
        self.assertEqual(container["image"], f"nodegauge:{VERSION}")
        words = [word.replace("$(NODE_NAME)", "n01") for word in container["args"]]
        words[words.index("--budget") : words.index("--budget") + 2] = FIGURE[1:5]
        words[0] = FIGURE[0]
        record = json.loads(self.run_in("nodegauge", *words))
        self.assertEqual(record["labels"], {"node": "n01"})
        # Output of kubectl for two pods.
        logs = "".join(json.dumps({**record, "machine": {**record["machine"], "host": host}}) + "\n" for host in ("n01", "n02"))
        (self.work / "records.jsonl").write_text(logs)
        self.assertIn("2 nodes", self.run_in("nodegauge", "fleet", "rank", "records.jsonl"))
