"""EasyBuild installs the released file as a module."""

import time
import unittest
from pathlib import Path

from common import FIGURE, FILES, NAME, VERSION, PackageTest, tools

LMOD = Path("/usr/share/lmod/lmod/libexec/lmod")


class EasyBuild(PackageTest):
    def test_module_is_installed_and_measures(self):
        eb = tools("easybuild==5.4.1") / "eb"
        if not LMOD.exists():
            raise unittest.SkipTest("EasyBuild needs a tool for modules (Debian: lmod)")
        recipe = self.recipes() / "easybuild" / f"{NAME}.eb"
        options = ["--prefix", self.work / "eb", "--sourcepath", FILES, "--modules-tool", "Lmod"]
        options += ["--module-syntax", "Lua", "--allow-use-as-root-and-accept-consequences"]
        variables = {"LMOD_CMD": LMOD, "EB_PYTHON": eb.parent / "python", "EASYBUILD_ROBOT_PATHS": recipe.parent, "USER": "root"}
        dry = self.run_in(eb, "--dry-run", *options, recipe, **variables)
        self.assertIn(NAME, dry)
        started = time.monotonic()
        self.run_in(eb, *options, recipe, **variables)
        installed = self.work / "eb/software/nodegauge" / VERSION
        self.assertTrue((self.work / f"eb/modules/all/nodegauge/{VERSION}.lua").is_file())
        self.assert_figure(self.run_in(installed / "bin/nodegauge", *FIGURE))
        self.report(started)
        # The module file sets the path.
        module = (self.work / f"eb/modules/all/nodegauge/{VERSION}.lua").read_text()
        self.assertRegex(module, r'prepend_path\("PATH", (pathJoin\(root, )?"?(.*bin)"')
