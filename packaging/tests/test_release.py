"""The documents of a release, upgrades, and installation on systems that lack something."""

import gzip
import json
import os
import re
import shutil
import subprocess
import sys

from common import ARCHIVE, FIGURE, FILE, FILES, NAME, ROOT, VERSION, WHEEL, PackageTest, digest

HERE = ROOT / "packaging/tests"


class Documents(PackageTest):
    def setUp(self):
        super().setUp()
        self.files = self.work / "files"
        self.files.mkdir()
        for path in FILES.glob("nodegauge*"):
            # The documents of the real release, through links, are replaced and not changed.
            if path.is_file():
                (self.files / path.name).symlink_to(path)
        words = [ROOT / "scripts/documents", self.files, "--commit", "0" * 40]
        self.run_in(*words, SOURCE_DATE_EPOCH="1700000000", BUILDER_ID="https://builder.example/1")

    def test_checksums_and_provenance_name_every_file(self):
        self.run_in("sha256sum", "--quiet", "--check", "SHA256SUMS", folder=self.files)
        sums = dict(reversed(line.split("  ")) for line in (self.files / "SHA256SUMS").read_text().splitlines())
        for path in (FILE, ARCHIVE, WHEEL, FILES / f"{NAME}.cdx.json", FILES / f"{NAME}-recipes.tar.gz"):
            self.assertIn(path.name, sums)
        statement = json.loads((self.files / f"{NAME}.intoto.json").read_text())
        self.assertEqual(statement["_type"], "https://in-toto.io/Statement/v1")
        self.assertEqual(statement["predicateType"], "https://slsa.dev/provenance/v1")
        self.assertEqual({one["name"]: one["digest"]["sha256"] for one in statement["subject"]}, sums)
        build = statement["predicate"]["buildDefinition"]
        self.assertEqual(build["resolvedDependencies"][0]["digest"], {"gitCommit": "0" * 40})
        self.assertEqual(statement["predicate"]["runDetails"]["builder"]["id"], "https://builder.example/1")
        inputs = {one.get("name") or one["uri"] for one in build["resolvedDependencies"]}
        self.assertTrue(any("hwloc" in name for name in inputs) and any("ziglang" in name for name in inputs), inputs)

    def test_documents_of_a_linked_release_leave_the_release_unchanged(self):
        self.run_in("sha256sum", "--quiet", "--check", "SHA256SUMS", folder=FILES)

    def test_documents_are_reproducible(self):
        first = {path.name: digest(path) for path in self.files.iterdir() if path.is_file()}
        words = [ROOT / "scripts/documents", self.files, "--commit", "0" * 40]
        self.run_in(*words, SOURCE_DATE_EPOCH="1700000000", BUILDER_ID="https://builder.example/1")
        self.assertEqual(first, {path.name: digest(path) for path in self.files.iterdir() if path.is_file()})

    def test_notes_are_the_section_of_this_version(self):
        notes = (self.files / "release-notes.md").read_text()
        self.assertTrue(notes.startswith(f"# nodegauge {VERSION}\n"))
        self.assertIn("### Added", notes)
        self.assertNotIn("\n## ", notes)

    def test_recipes_have_version_address_and_checksums(self):
        found = 0
        for path in (self.files / "recipes").rglob("*"):
            if path.is_file():
                text = path.read_text()
                self.assertNotRegex(text, r"@[A-Z0-9_]+@", str(path))
                found += text.count(digest(ARCHIVE))
        self.assertGreaterEqual(found, 4)

    def test_tag_of_another_version_is_refused(self):
        refused = self.run_in(ROOT / "scripts/release", "--tag", "v9.9.9", folder=ROOT, succeeds=False)
        self.assertIn(f"not that of version {VERSION}", refused)

    def test_workflows_only_call_the_script(self):
        for name in (".github/workflows/release.yml", ".gitlab-ci.yml"):
            text = (ROOT / name).read_text()
            self.assertEqual(text.count("./scripts/release --tag"), 1, name)
            for word in ("cargo build", "scripts/package", "sha256sum", "wheel"):
                self.assertNotIn(word, text, name)


class Upgrade(PackageTest):
    def test_history_and_records_of_the_first_version_are_read(self):
        for saved in sorted((HERE / "upgrade").glob("history-*.db.gz")):
            path = self.work / "history.db"
            path.write_bytes(gzip.decompress(saved.read_bytes()))
            listed = self.run_in(FILE, "history", "list", NODEGAUGE_DB=path)
            self.assertIn("triad", listed)
            self.assertIn("nps=4", listed)
            exported = self.run_in(FILE, "history", "export", NODEGAUGE_DB=path).splitlines()
            self.assertEqual(len(exported), 3)
            self.run_in(FILE, "report", "latest", "--format", "md", NODEGAUGE_DB=path)
            # A run of this version is saved in the same history.
            saving = [word for word in FIGURE if word != "--no-save"]
            self.run_in(FILE, *saving, NODEGAUGE_DB=path)
            self.assertEqual(len(self.run_in(FILE, "history", "list", "-q", NODEGAUGE_DB=path).splitlines()), 4)
            # The record is imported elsewhere.
            (self.work / "old.jsonl").write_text("\n".join(exported))
            self.run_in(FILE, "history", "import", "old.jsonl", NODEGAUGE_DB=self.work / "other.db")

    def test_later_package_replaces_earlier_package(self):
        if not shutil.which("dpkg-deb"):
            self.skipTest("dpkg is not installed")
        package = FILES / f"nodegauge_{VERSION}_amd64.deb"
        old = self.work / "old"
        self.run_in("dpkg-deb", "-R", package, old)
        control = old / "DEBIAN/control"
        control.write_text(re.sub(r"(?m)^Version: .*$", "Version: 0.0.9", control.read_text()))
        (old / "usr/bin/nodegauge-of-the-old-version").write_text("#!/bin/sh\n")
        self.run_in("dpkg-deb", "--root-owner-group", "-Znone", "-b", old, "old.deb")
        root = self.work / "root"
        for folder in ("info", "updates"):
            (root / "var/lib/dpkg" / folder).mkdir(parents=True)
        state = subprocess.run(["dpkg-query", "--status", "libc6"], capture_output=True, text=True, check=True).stdout
        (root / "var/lib/dpkg/status").write_text(state)
        (root / "var/lib/dpkg/info/libc6:amd64.list").touch()
        dpkg = ["dpkg", f"--root={root}", "--force-not-root", "--force-script-chrootless", "--log=/dev/null"]
        self.run_in(*dpkg, "--install", "old.deb")
        self.run_in(*dpkg, "--install", package)
        self.assertFalse((root / "usr/bin/nodegauge-of-the-old-version").exists())
        self.assertIn(VERSION, self.run_in(root / "usr/bin/nodegauge", "-V"))
        self.run_in(*dpkg, "--purge", "nodegauge")
        self.assertEqual([path for path in root.rglob("*nodegauge*")], [])


class Missing(PackageTest):
    def test_wheel_and_archive_are_installed_without_network(self):
        python = self.work / "environment/bin/python"
        self.run_in(sys.executable, "-m", "venv", self.work / "environment")
        # A proxy that does not answer, and no index: nothing is downloaded.
        nowhere = {"http_proxy": "http://127.0.0.1:9", "https_proxy": "http://127.0.0.1:9", "PIP_NO_INDEX": "1"}
        self.run_in(python, "-m", "pip", "install", "--quiet", WHEEL, **nowhere)
        self.assert_figure(self.run_in(self.work / "environment/bin/nodegauge", *FIGURE, **nowhere))
        self.run_in("tar", "-xf", ARCHIVE)
        self.assert_figure(self.run_in(self.work / f"{NAME}-x86_64-linux/bin/nodegauge", *FIGURE, **nowhere))

    def test_home_without_write_permission_has_a_hint(self):
        saving = [word for word in FIGURE if word != "--no-save"]
        home = self.work / "locked"
        home.mkdir()
        home.chmod(0o555)
        copy = self.work / "nodegauge"
        shutil.copyfile(FILE, copy)
        copy.chmod(0o755)
        self.work.chmod(0o755)
        as_user = ["setpriv", "--reuid=65534", "--clear-groups"] if os.getuid() == 0 else []
        refused = self.run_in(*as_user, copy, *saving, HOME=home, succeeds=False)
        self.assertIn("--no-save", refused)
        self.assert_figure(self.run_in(*as_user, copy, *FIGURE, HOME=home))

    def test_chapter_names_restrictions_and_the_processor(self):
        chapter = (ROOT / "docs/install.md").read_text()
        for word in ("SELinux", "proxy", "aarch64", "without network", "old pip"):
            self.assertIn(word, chapter)
