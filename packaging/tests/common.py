"""Helpers for the tests of packages: the packages, rendered recipes, and package managers."""

import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
import time
import tomllib
import unittest
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
TARGET = Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target"))
FILES = TARGET / "release-files"
VERSION = tomllib.loads((ROOT / "Cargo.toml").read_text())["workspace"]["package"]["version"]
NAME = f"nodegauge-{VERSION}"
FILE = FILES / f"{NAME}-x86_64-linux"
ARCHIVE = FILES / f"{NAME}-x86_64-linux.tar.gz"
#: Version of the wheel, e.g. 1.0.0rc1 for 1.0.0-rc.1.
PYTHON_VERSION = subprocess.run(
    [ROOT / "scripts/python-version", VERSION], capture_output=True, text=True, check=True
).stdout.strip()
WHEEL = FILES / f"nodegauge-{PYTHON_VERSION}-py3-none-manylinux_2_28_x86_64.whl"
#: Command of each recipe that shows that the program works.
FIGURE = ["stream", "--samples", "3", "--size", "4MiB", "--no-save", "--threads", "1"]
#: Environment of tools: only the path of the caller.
CLEAN = {"PATH": os.environ["PATH"], "LC_ALL": "C.UTF-8", "SHELL": "/bin/sh"}
for variable in ("http_proxy", "https_proxy", "no_proxy", "PIP_INDEX_URL", "SSL_CERT_FILE", "CARGO_HOME", "RUSTUP_HOME"):
    if variable in os.environ:
        CLEAN[variable] = os.environ[variable]
# Rust's tools are in the home folder of the caller.
CLEAN.setdefault("RUSTUP_HOME", str(Path.home() / ".rustup"))
CLEAN.setdefault("CARGO_HOME", str(Path.home() / ".cargo"))


class PackageTest(unittest.TestCase):
    """A test with its own folder, which contains a local copy of the release that recipes download."""

    @classmethod
    def setUpClass(cls):
        if not FILE.is_file() or not ARCHIVE.is_file():
            raise unittest.SkipTest(f"there is no {ARCHIVE}; run: make packages")

    def setUp(self):
        self.work = Path(tempfile.mkdtemp(prefix="nodegauge-packaging-"))
        self.addCleanup(remove, self.work)
        self.home = self.work / "home"
        self.home.mkdir()
        self.environment = {**CLEAN, "HOME": str(self.home)}

    def run_in(self, *words, folder=None, succeeds=True, timeout=280, **variables):
        """Runs a command and returns its output; fails with the output if the command fails."""
        words = [str(word) for word in words]
        environment = {**self.environment, **{key: str(value) for key, value in variables.items()}}
        ended = subprocess.run(
            words,
            cwd=folder or self.work,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=timeout,
        )
        if (ended.returncode == 0) != succeeds:
            self.fail(f"{' '.join(words)}: exit code {ended.returncode}\n{ended.stdout[-6000:]}")
        return ended.stdout

    def recipes(self):
        """Returns the folder of the recipes, for a local copy of the release."""
        site = self.work / "site"
        release = site / "releases/download" / f"v{VERSION}"
        release.mkdir(parents=True)
        for path in FILES.glob("nodegauge*"):
            if path.is_file():
                (release / path.name).symlink_to(path)
        folder = self.work / "recipes"
        self.run_in(ROOT / "scripts/documents", "--recipes", FILES, folder, ADDRESS=f"file://{site}")
        return folder

    def report(self, started):
        """Prints the time from the recipe to the first figure, which depends on the load of this machine."""
        print(f"{self.id()}: {time.monotonic() - started:.1f} s from the recipe to the first figure", file=sys.stderr)

    def assert_figure(self, output):
        """Checks that the output is a page of STREAM with a figure."""
        self.assertRegex(output, r"(?m)^triad +[0-9.]+ ")


def remove(folder):
    """Removes a folder, even if it contains folders that cannot be written."""
    subprocess.run(["chmod", "-R", "u+rwX", str(folder)], check=False, stderr=subprocess.DEVNULL)
    shutil.rmtree(folder, ignore_errors=True)


@cache
def tools(*packages):
    """Returns the folder of the programs of these PyPI packages; skips the test if they are not available."""
    folder = TARGET / "packaging-tools" / "-".join(package.split("==")[0].lower() for package in packages)
    marker = folder / "complete"
    wanted = "\n".join(packages)
    if not marker.is_file() or marker.read_text() != wanted:
        shutil.rmtree(folder, ignore_errors=True)
        subprocess.run(["python3", "-m", "venv", str(folder)], check=True)
        pip = [str(folder / "bin/pip"), "install", "--quiet", "--disable-pip-version-check", "--retries", "1"]
        ended = subprocess.run([*pip, "--timeout", "20", *packages], capture_output=True, text=True, check=False)
        if ended.returncode:
            raise unittest.SkipTest(f"{', '.join(packages)} cannot be installed: {ended.stderr.strip().splitlines()[-1]}")
        marker.write_text(wanted)
    return folder / "bin"


def program(name, package):
    """Returns the path of an installed program; skips the test without it."""
    path = shutil.which(name)
    if path is None:
        raise unittest.SkipTest(f"{name} is not installed (Debian: {package})")
    return path


def checkout(variable, name):
    """Returns the folder of a tool that is used from its repository; skips the test without it."""
    path = os.environ.get(variable)
    if not path or not Path(path).is_dir():
        raise unittest.SkipTest(f"{name} is used from its repository: set {variable} to a checkout")
    return Path(path)


def digest(path):
    """Returns the SHA-256 of a file."""
    return hashlib.sha256(path.read_bytes()).hexdigest()
