"""rattler-build makes a conda package from the released file and tests it; the content of the package runs."""

import json
import time

from common import FIGURE, FILE, PackageTest, tools

BUILD = """
import sys
from rattler_build.cli_api import build_recipes
recipe, output, channel = sys.argv[1:]
build_recipes([recipe], output_dir=output, channel=[channel], test="native", target_platform="linux-64",
              package_format="conda:1")
"""
#: Unpacks a conda package: a zip with archives in zstd.
UNPACK = """
import io, sys, tarfile, zipfile, zstandard
package, folder = sys.argv[1:]
whole = zipfile.ZipFile(package)
for name in whole.namelist():
    if name.endswith(".tar.zst"):
        part = zstandard.ZstdDecompressor().stream_reader(whole.open(name)).read()
        tarfile.open(fileobj=io.BytesIO(part)).extractall(folder, filter="fully_trusted")
"""


class Conda(PackageTest):
    def test_package_is_built_and_measures(self):
        python = tools("py-rattler-build==0.73.0", "zstandard") / "python"
        recipe = self.recipes() / "conda/recipe.yaml"
        channel = self.work / "channel"
        for platform in ("noarch", "linux-64"):
            (channel / platform).mkdir(parents=True)
            index = {"info": {"subdir": platform}, "packages": {}, "packages.conda": {}}
            (channel / platform / "repodata.json").write_text(json.dumps(index))
        started = time.monotonic()
        self.run_in(python, "-W", "ignore", "-c", BUILD, recipe, self.work / "out", f"file://{channel}")
        (package,) = (self.work / "out/linux-64").glob("nodegauge-*.conda")
        prefix = self.work / "prefix"
        self.run_in(python, "-c", UNPACK, package, prefix)
        self.assert_figure(self.run_in(prefix / "bin/nodegauge", *FIGURE))
        self.report(started)
        # The file is unchanged from the release.
        self.assertEqual((prefix / "bin/nodegauge").read_bytes(), FILE.read_bytes())
        index = json.loads((prefix / "info/index.json").read_text())
        self.assertEqual(index["depends"], ["__glibc >=2.28"])
