"""The module of the wheel: rows of records, the program, types; with several versions of Python."""

import ast
import json
import os
import subprocess
import sys
import unittest

from common import FIGURE, ROOT, TARGET, VERSION, WHEEL, PackageTest, tools

MODULE = ROOT / "packaging/python/nodegauge"
GOLDEN = ROOT / "tests/golden"
#: Oldest version of Python whose grammar the module supports.
OLDEST = (3, 9)

#: Script that needs only Python.
PLAIN = """
import json, sys, nodegauge
from pathlib import Path
golden = sys.argv[1]
rows = nodegauge.load(f"{golden}/stream/record.json", f"{golden}/h*l/record.json")
assert isinstance(rows, list), type(rows)
first = rows[0]
assert (first["name"], first["unit"], first["validity"]) == ("copy", "B/s", "suspect"), first
assert first["config.threads"] == 2 and "arrays are" in first["reasons"]
assert all(list(row) == list(first) for row in rows), "rows have different columns"
assert len(rows) == sum(len(record["measurements"]) for record in nodegauge.read(f"{golden}/stream/record.json", f"{golden}/h*l/record.json"))
every = nodegauge.load(f"{golden}/*/record.json")
assert len({row["run"] for row in every}) > 40
for wrong, error in ((["*.nothing"], FileNotFoundError), ([nodegauge.__file__], ValueError), ([], TypeError)):
    try:
        nodegauge.load(*wrong)
    except error as refused:
        assert wrong == [] or wrong[0] in str(refused), refused
    else:
        raise AssertionError(wrong)
"""
#: Script that reads files that are unusual or broken.
FILES_READ = """
import json, pickle, sys, nodegauge
from pathlib import Path
record = json.loads(Path(sys.argv[1]).read_text())
record["labels"] = {"note": "one\\u2028two\\u0085three\\u2029four"}
lines = "\\n".join(json.dumps(record, ensure_ascii=False) for _ in range(2)) + "\\n"
Path("breaks.jsonl").write_text(lines, encoding="utf-8")
assert len(nodegauge.read("breaks.jsonl")) == 2
Path("mark.json").write_text(json.dumps(record), encoding="utf-8-sig")
assert nodegauge.read("mark.json") == [record]
Path("windows.jsonl").write_bytes(lines.replace("\\n", "\\r\\n").encode())
assert len(nodegauge.read("windows.jsonl")) == 2
broken = {
    "latin.json": b'{"schema": "\\xe4"}',
    "cut.json": json.dumps(record).encode()[:-9],
    "other.json": b"[1, 2]",
    "none.json": json.dumps({**record, "measurements": None}).encode(),
    "text.json": json.dumps({**record, "measurements": ["triad"]}).encode(),
    "config.json": json.dumps({**record, "measurements": [{**record["measurements"][0], "config": 3}]}).encode(),
    "deep.json": b"[" * 100_000,
}
for name, content in broken.items():
    Path(name).write_bytes(content)
    try:
        nodegauge.load(name, frame="rows")
    except nodegauge.RecordError as error:
        assert isinstance(error, ValueError) and name in str(error), error
    else:
        raise AssertionError(name)
error = pickle.loads(pickle.dumps(nodegauge.ProgramError(["stream"], 2, "error: no\\n")))
assert (str(error), error.returncode, error.arguments) == ("error: no", 2, ["stream"]), vars(error)
"""
#: Script that ends a program after a time.
TIMEOUT = """
import subprocess, sys, time, nodegauge, nodegauge._program
nodegauge._program.GRACE = 0.5
for ends, name in ((True, "polite"), (False, "deaf")):
    started = time.monotonic()
    try:
        nodegauge.run([name], timeout=1)
    except subprocess.TimeoutExpired as expired:
        assert expired.stdout == "started\\n" + ("ended\\n" if ends else ""), expired.stdout
        assert time.monotonic() - started < 30
    else:
        raise AssertionError(name)
"""
#: Program that does not end by itself, or not even by SIGTERM.
ENDLESS = """#!/bin/sh
case $1 in
    polite) trap 'echo ended; exit 143' TERM ;;
    *) trap '' TERM ;;
esac
echo started
while :; do sleep 0.1 >/dev/null 2>&1; done
"""
#: Script that runs the program in the package.
MEASURES = """
import sys, nodegauge
run = nodegauge.run([*sys.argv[1:-1], "--label", "nps=4"])
assert run.returncode in (0, 1) and "triad" in run.stdout, run
assert {row["name"] for row in run.figures("rows")} == {"copy", "scale", "add", "triad"}
saved = nodegauge.history("nps=4", frame="rows")
assert len(saved) == 4 and saved[0]["label.nps"] == "4" and saved[0]["run"] == run.record["id"], saved
assert nodegauge.history(frame="rows") == saved
try:
    nodegauge.run(["stream", "--no-such-option"])
except nodegauge.ProgramError as error:
    assert error.returncode == 2 and "--no-such-option" in str(error), error
else:
    raise AssertionError
assert nodegauge.run(["report", "latest", "--format", "md"], record=False).stdout
assert nodegauge.program().startswith(sys.argv[-1]), nodegauge.program()
fast = [*sys.argv[1:-1], "--no-save"]
for more in (["--csv", "figures.csv"], ["--json", "own.json"], ["--json=own.json"], ["--json", "-"], ["--quiet", "--json"]):
    assert nodegauge.run([*fast, *more]).record["measurements"], more
assert nodegauge.run(["places"]).record is None
"""
FRAMES = """
import sys, nodegauge
golden = sys.argv[1] + "/*/record.json"
pandas = nodegauge.load(golden)
assert type(pandas).__module__.startswith("pandas"), type(pandas)
best = pandas[pandas.validity != "invalid"].groupby(["test", "name"])["value"].max()
assert best["stream", "triad"] > 1e9
polars = nodegauge.load(golden, frame="polars")
assert polars.height == len(pandas) == len(nodegauge.load(golden, frame="rows"))
assert str(pandas["started"].dtype).endswith(", UTC]"), pandas["started"].dtype
assert str(polars["started"].dtype).startswith("Datetime") and polars["started"].dtype.time_zone == "UTC"
assert polars["started"].to_list() == [time.to_pydatetime() for time in pandas["started"]]
for empty in (nodegauge.frame_of([], "pandas"), nodegauge.frame_of([], "polars")):
    assert len(empty) == 0 and {"name", "value", "started"} <= set(empty.columns), empty
    assert "UTC" in str(empty["started"].dtype), empty["started"].dtype
"""


#: Script that names the figures of every golden record.
NAMES = """
import json, re, sys
from pathlib import Path
from nodegauge._names import names_of
named = {}
for path in sorted(Path(sys.argv[1]).glob("*/record.json")):
    figures = json.loads(path.read_text())["measurements"]
    names = names_of(figures)
    assert len(set(names)) == len(names) == len(figures), path
    assert all(re.fullmatch(r"[A-Za-z0-9_.+-]{1,120}", name) for name in names), names
    # Values, samples and other observations of another run do not change the names.
    for figure in figures:
        figure["value"] = 1.0
        figure["config"] = {key: value for key, value in figure["config"].items() if not isinstance(value, float)}
    assert names_of(figures) == names, path
    named[path.parent.name] = names
assert named["stream"] == ["copy", "scale", "add", "triad"], named["stream"]
for name, record in (
    ("triad_n04", "stream-hosts"),
    ("copy_threads_2_regular", "stream-sweep-two-axes"),
    ("triad_compiled", "stream-sweep-compiler"),
    ("rating_n_8000_nb_192", "hpl-xhpl-several"),
    ("mbw_mr_8_same_cache_msg_per_s", "mpi-all"),
    ("random_mix_262144_16384_cached_read_percent_30", "io-all-operations"),
    ("latency_8_same_cache_Open_MPI_4.1.4", "mpi-two"),
    ("triad_ranks_2_policy_3", "stream-sweep-ranks-policy"),
):
    assert name in named[record], named[record]
assert [name for name in named["hpl"] if name == "rating"], named["hpl"]
"""


class Python(PackageTest):
    def new_environment(self, *interpreter):
        """Returns the python of a new environment with the wheel."""
        folder = self.work / "environment"
        self.run_in(*interpreter, "-m", "venv", folder)
        self.run_in(folder / "bin/pip", "install", "--quiet", "--no-index", WHEEL)
        return folder / "bin/python"

    def check(self, python):
        self.run_in(python, "-c", PLAIN, GOLDEN)
        self.run_in(python, "-c", FILES_READ, GOLDEN / "stream/record.json")
        saving = [word for word in FIGURE if word != "--no-save"]
        self.run_in(python, "-c", MEASURES, *saving, self.work)
        self.assertIn(VERSION, self.run_in(python, "-m", "nodegauge", "-V"))

    def test_module_works_with_this_python(self):
        self.check(self.new_environment(sys.executable))

    def test_module_works_with_the_newest_python(self):
        uv = tools("uv==0.13.9") / "uv"
        newest = subprocess.run([uv, "python", "find", ">3.11"], capture_output=True, text=True, check=False)
        if newest.returncode:
            made = [uv, "python", "install", "--install-dir", TARGET / "packaging-tools/python", "3.14"]
            ended = subprocess.run(made, capture_output=True, text=True, check=False, timeout=100)
            if ended.returncode:
                raise unittest.SkipTest(f"no newer Python than {sys.version.split()[0]}: {ended.stderr.strip().splitlines()[-1]}")
            newest = subprocess.run(
                [uv, "python", "find", "3.14"], capture_output=True, text=True, check=True,
                env={**os.environ, "UV_PYTHON_INSTALL_DIR": str(TARGET / "packaging-tools/python")},
            )
        self.check(self.new_environment(newest.stdout.strip()))

    def test_module_has_the_syntax_of_the_oldest_python(self):
        for path in MODULE.glob("*.py"):
            ast.parse(path.read_text(), filename=str(path), feature_version=OLDEST)

    def test_rows_become_data_frames(self):
        python = tools("pandas", "polars") / "python"
        self.run_in(python, "-c", FRAMES, GOLDEN, PYTHONPATH=MODULE.parent)

    def test_program_ends_after_the_timeout(self):
        folder = self.work / "bin"
        folder.mkdir()
        (folder / "nodegauge").write_text(ENDLESS)
        (folder / "nodegauge").chmod(0o755)
        path = f"{folder}:{self.environment['PATH']}"
        self.run_in(sys.executable, "-c", TIMEOUT, PYTHONPATH=MODULE.parent, PATH=path)

    def test_names_of_figures_are_unique_and_stable(self):
        self.run_in(sys.executable, "-c", NAMES, GOLDEN, PYTHONPATH=MODULE.parent)

    def test_types_are_complete(self):
        mypy = tools("mypy") / "mypy"
        self.assertTrue((MODULE / "py.typed").is_file())
        sources = [path for path in MODULE.glob("*.py") if path.name != "reframe.py"]
        # Frames of pandas and polars are Any: neither is a dependency.
        self.run_in(mypy, "--strict", "--ignore-missing-imports", *sources)

    def test_old_pip_names_the_reason(self):
        # Wheels of manylinux_2_28 need pip 20.3; older ones say that the platform is not supported.
        python = self.work / "old/bin/python"
        self.run_in(sys.executable, "-m", "venv", self.work / "old")
        old = subprocess.run([python, "-m", "pip", "install", "--quiet", "pip==20.2.4"], capture_output=True, check=False)
        if old.returncode:
            raise unittest.SkipTest("pip 20.2.4 cannot be installed")
        ended = subprocess.run([python, "-m", "pip", "install", "--no-index", WHEEL], capture_output=True, text=True, check=False)
        if "AttributeError" in ended.stderr or "ImportError" in ended.stderr:
            raise unittest.SkipTest(f"pip 20.2.4 does not run with Python {sys.version.split()[0]}")
        self.assertIn("not a supported wheel on this platform", ended.stderr)
        self.assertIn("not a supported wheel on this platform", (ROOT / "docs/install.md").read_text())

    def test_wheel_is_small(self):
        self.assertLess(WHEEL.stat().st_size, 20_000_000)


class Notebook(PackageTest):
    def test_teaching_notebook_runs(self):
        python = tools("nbclient", "nbformat", "ipykernel", "pandas", "matplotlib") / "python"
        script = (
            "import sys, nbformat, nbclient\n"
            "book = nbformat.read(sys.argv[1], as_version=4)\n"
            "nbformat.validate(book)\n"
            "assert not any(cell.get('outputs') for cell in book.cells), 'the notebook is kept without outputs'\n"
            "nbclient.NotebookClient(book, timeout=120, kernel_name='python3').execute()\n"
            "shown = [output for cell in book.cells for output in cell.get('outputs', [])]\n"
            "assert any('image/png' in output.get('data', {}) for output in shown), 'no picture'\n"
            "assert not any(output.output_type == 'error' for output in shown)\n"
        )
        folder = self.work / "bin"
        folder.mkdir()
        from common import FILE

        (folder / "nodegauge").symlink_to(FILE)
        variables = {"PYTHONPATH": MODULE.parent, "PATH": f"{folder}:{self.environment['PATH']}", "NODEGAUGE_LESSON": "short"}
        self.run_in(python, "-c", script, ROOT / "packaging/notebooks/teach.ipynb", **variables)
