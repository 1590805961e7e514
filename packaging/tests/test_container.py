"""The image of the Containerfile contains only the file, glibc and the texts of their licences."""

import json
import re
import shutil
import subprocess
import time
import unittest
from pathlib import Path

from common import FIGURE, FILE, NAME, ROOT, VERSION, PackageTest, digest, program

#: Maximum size of the image.
MAX_MB = 25


class Container(PackageTest):
    def buildah(self, *words, **more):
        return self.run_in(
            program("buildah", "buildah"), "--root", self.work / "storage", "--runroot", self.work / "run",
            "--storage-driver", "vfs", *words, **more,
        )

    def base(self):
        """Makes an image with the glibc of this system, in place of one from a registry."""
        container = self.buildah("from", "scratch").strip().splitlines()[-1]
        folder = self.work / "base"
        for name in ("ld-linux-x86-64.so.2", "libc.so.6", "libm.so.6", "libdl.so.2", "libpthread.so.0", "librt.so.1", "libutil.so.1"):
            place = "lib64" if name.startswith("ld-") else "lib/x86_64-linux-gnu"
            source = next((path for path in (Path("/lib64") / name, Path("/lib/x86_64-linux-gnu") / name) if path.exists()), None)
            if source is None:
                raise unittest.SkipTest(f"this system has no {name} where Debian has it")
            (folder / place).mkdir(parents=True, exist_ok=True)
            (folder / place / name).write_bytes(source.read_bytes())
            (folder / place / name).chmod(0o755)
        (folder / "tmp").mkdir()
        (folder / "tmp").chmod(0o1777)
        (folder / "usr/share/doc/libc6").mkdir(parents=True)
        (folder / "usr/share/doc/libc6/copyright").write_text("The GNU C Library is under the LGPL.\n")
        # Tools of the build.
        busybox = Path(program("busybox", "busybox-static"))
        (folder / "bin").mkdir()
        shutil.copy(busybox, folder / "bin/busybox")
        for tool in ("sh", "sha256sum", "chmod", "mkdir", "cp"):
            (folder / "bin" / tool).symlink_to("busybox")
        self.buildah("copy", container, folder, "/")
        self.buildah("commit", container, "localhost/base")
        return "localhost/base"

    def test_image_is_small_and_measures(self):
        program("buildah", "buildah")
        context = self.recipes() / "container"
        # A downloaded file cannot be executed.
        (context / FILE.name).write_bytes(FILE.read_bytes())
        (context / FILE.name).chmod(0o644)
        base = self.base()
        started = time.monotonic()
        build = ("build", "--isolation", "chroot", "--build-arg", f"BASE={base}")
        self.buildah(*build, "-t", "nodegauge", context)
        description = json.loads(self.buildah("inspect", "--type", "image", "nodegauge"))["OCIv1"]
        self.assertEqual(description["config"]["Entrypoint"], ["/usr/bin/nodegauge"])
        self.assertEqual(description["config"]["Labels"]["org.opencontainers.image.version"], VERSION)
        container = self.buildah("from", "nodegauge").strip().splitlines()[-1]
        root = self.buildah("mount", container).strip()
        files = [path for path in Path(root).rglob("*") if path.is_file() and not path.is_symlink()]
        size = sum(path.stat().st_size for path in files)
        self.assertLess(size, MAX_MB * 1_000_000, sorted((path.stat().st_size, path.name) for path in files))
        self.assert_figure(self.run_in("chroot", root, "/usr/bin/nodegauge", *FIGURE))
        self.report(started)
        # Another user can write only to /tmp, and saves the history there.
        self.assertEqual(oct((Path(root) / "tmp").stat().st_mode & 0o7777), "0o1777")
        saving = [word for word in FIGURE if word != "--no-save"]
        user = ("chroot", "--userspec=65534:65534", root)
        other = self.run_in(*user, "/usr/bin/nodegauge", *saving, HOME="/tmp")
        self.assert_figure(other)
        self.assertIn("triad", self.run_in(*user, "/usr/bin/nodegauge", "history", "list", HOME="/tmp"))
        for text in ("nodegauge/LICENSE", "nodegauge/third-party.txt", "libc6/copyright"):
            path = Path(root) / "usr/share/doc" / text
            self.assertTrue(path.stat().st_size > 0 and path.stat().st_mode & 0o004, text)
        # Another file is refused.
        with (context / FILE.name).open("ab") as file:
            file.write(b"x")
        self.assertIn("FAILED", self.buildah(*build, context, succeeds=False))

    def test_definition_of_apptainer_has_its_sections(self):
        text = (self.recipes() / "container/nodegauge.def").read_text()
        self.assertRegex(text, r"(?m)^Bootstrap: docker$")
        sections = re.findall(r"(?m)^%(\w+)", text)
        self.assertEqual(sections, ["files", "post", "runscript", "test", "labels", "help"])
        self.assertIn(f"{NAME}-x86_64-linux /usr/bin/nodegauge", text)
        self.assertIn(f'echo "{digest(FILE)}  /usr/bin/nodegauge" | sha256sum -c -', text)
        for licence in ("LICENSE", "third-party.txt"):
            self.assertIn(f"    {licence} /usr/share/doc/nodegauge/{licence}\n", text)
        for section in ("post", "runscript", "test"):
            script = re.search(rf"(?ms)^%{section}\n(.*?)(?=^%|\Z)", text)[1]
            self.run_in("sh", "-n", "-c", script)

    @unittest.skipIf(subprocess.run(["sh", "-c", "command -v apptainer"], capture_output=True).returncode, "apptainer is not installed")
    def test_apptainer_builds_the_definition(self):
        context = self.recipes() / "container"
        (context / FILE.name).write_bytes(FILE.read_bytes())
        self.run_in("apptainer", "build", "--fakeroot", "nodegauge.sif", "nodegauge.def", folder=context)
        self.assert_figure(self.run_in("apptainer", "run", "nodegauge.sif", *FIGURE, folder=context))
