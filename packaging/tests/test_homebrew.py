"""The formula is valid Ruby, and its files are in the archive."""

import re
import tarfile

from common import ARCHIVE, NAME, PackageTest, program


class Homebrew(PackageTest):
    def test_formula_is_valid_ruby_and_its_files_exist(self):
        formula = self.recipes() / "homebrew/nodegauge.rb"
        self.assertIn("Syntax OK", self.run_in(program("ruby", "ruby"), "-c", formula))
        names = [name.removeprefix(f"{NAME}-x86_64-linux/") for name in tarfile.open(ARCHIVE).getnames()]
        installed = re.findall(r'install (?:Dir\[)?"([^"]+)"', formula.read_text())
        self.assertEqual(len(installed), 6)
        for name in installed:
            self.assertTrue(any(there.startswith(name.rstrip("*")) for there in names), name)
