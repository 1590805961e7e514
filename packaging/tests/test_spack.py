"""Spack installs the released file from a repository outside of its tree."""

import time

from common import FIGURE, TARGET, VERSION, PackageTest, checkout, tools

#: Folders of this test. The index of Spack's own packages, which takes minutes, is kept between tests.
CONFIG = """
config:
  install_tree:
    root: {work}/installed
  source_cache: {work}/sources
  misc_cache: {kept}
  build_stage: {work}/stage
  test_stage: {work}/test
"""


class Spack(PackageTest):
    def setUp(self):
        super().setUp()
        self.spack = checkout("SPACK_ROOT", "Spack") / "bin/spack"
        clingo = tools("clingo==5.8.3")
        self.scope = self.work / "scope"
        self.scope.mkdir()
        repository = self.recipes() / "spack"
        kept = TARGET / "packaging-tools/spack-index"
        (self.scope / "config.yaml").write_text(CONFIG.format(work=self.work, kept=kept))
        (self.scope / "repos.yaml").write_text(f"repos:\n- {repository}\n")
        (self.scope / "bootstrap.yaml").write_text("bootstrap:\n  enable: true\n  sources: []\n")
        self.variables = {
            "SPACK_USER_CONFIG_PATH": self.work / "user",
            "SPACK_USER_CACHE_PATH": self.work / "cache",
            "SPACK_DISABLE_LOCAL_CONFIG": "1",
            "SPACK_PYTHON": clingo / "python",
        }

    def call(self, *words, **more):
        return self.run_in(self.spack, "-C", self.scope, *words, **self.variables, **more)

    def test_released_file_is_installed_and_measures(self):
        # Makes the index of packages, if it is not there.
        self.call("providers", "mpi", timeout=900)
        refused = self.call("spec", "nodegauge target=aarch64", succeeds=False)
        self.assertIn("nodegauge-source", refused)
        source = self.call("info", "nodegauge-source")
        self.assertIn(VERSION, source)
        started = time.monotonic()
        self.call("install", "--test=root", "nodegauge")
        prefix = self.call("location", "-i", "nodegauge").strip().splitlines()[-1]
        self.assert_figure(self.run_in(f"{prefix}/bin/nodegauge", *FIGURE))
        self.report(started)
        self.call("uninstall", "-y", "nodegauge")
