"""Spack installs the released file from a repository outside of its tree, and concretizes the build from source."""

import shutil
import time
import unittest

from common import FIGURE, PackageTest, VERSION, checkout, tools

#: Compilers and programs of this system, so that nothing else is installed.
CONFIG = """
config:
  install_tree:
    root: {work}/installed
  source_cache: {work}/sources
  misc_cache: {work}/misc
  build_stage: {work}/stage
  test_stage: {work}/test
  install_missing_compilers: false
"""


class Spack(PackageTest):
    def setUp(self):
        super().setUp()
        root = checkout("SPACK_ROOT", "Spack")
        clingo = tools("clingo==5.8.3")
        self.spack = root / "bin/spack"
        scope = self.work / "scope"
        scope.mkdir()
        repository = self.recipes() / "spack"
        (scope / "config.yaml").write_text(CONFIG.format(work=self.work))
        (scope / "repos.yaml").write_text(f"repos:\n- {repository}\n")
        (scope / "bootstrap.yaml").write_text("bootstrap:\n  enable: true\n  sources: []\n")
        self.variables = {
            "SPACK_USER_CONFIG_PATH": scope,
            "SPACK_USER_CACHE_PATH": self.work / "cache",
            "SPACK_DISABLE_LOCAL_CONFIG": "",
            "SPACK_PYTHON": clingo / "python",
            "SPACK_SYSTEM_CONFIG_PATH": self.work / "none",
        }

    def call(self, *words, **more):
        return self.run_in(self.spack, "-C", self.work / "scope", *words, **self.variables, **more)

    def test_released_file_is_installed_and_measures(self):
        started = time.monotonic()
        self.call("install", "--no-check-signature", "--test=root", "nodegauge")
        prefix = self.call("location", "-i", "nodegauge").strip().splitlines()[-1]
        self.assert_figure(self.run_in(f"{prefix}/bin/nodegauge", *FIGURE))
        self.assertLess(time.monotonic() - started, 60)
        self.call("test", "run", "nodegauge")
        self.call("uninstall", "-y", "nodegauge")

    def test_other_processors_are_refused_with_a_reason(self):
        refused = self.call("spec", "nodegauge target=aarch64", succeeds=False)
        self.assertIn("nodegauge-source", refused)

    def test_package_from_source_is_valid(self):
        text = self.call("info", "nodegauge-source")
        self.assertIn(VERSION, text)
        self.assertIn("hwloc", text)
