"""The documents of a release, upgrades, and installation on systems that lack something."""

import gzip
import json
import os
import re
import shutil
import subprocess
import sys
import tomllib
import zipfile

from common import ARCHIVE, FIGURE, FILE, FILES, NAME, PYTHON_VERSION, ROOT, VERSION, WHEEL, PackageTest, digest

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


    def test_workflows_pin_actions_and_the_compiler(self):
        github, gitlab = ((ROOT / name).read_text() for name in (".github/workflows/release.yml", ".gitlab-ci.yml"))
        uses = re.findall(r"uses: (\S+)", github)
        self.assertGreaterEqual(len(uses), 4)
        for one in uses:
            self.assertRegex(one, r"^[\w-]+/[\w-]+@[0-9a-f]{40}$")
        images = [re.findall(r"\brust:(\S+)", text) for text in (github, gitlab)]
        self.assertEqual(images[0], images[1])
        oldest = tomllib.loads((ROOT / "Cargo.toml").read_text())["workspace"]["package"]["rust-version"]
        ((version, release),) = [image.split("-") for image in images[0]]
        self.assertGreaterEqual([int(part) for part in version.split(".")], [int(part) for part in oldest.split(".")])
        # hwloc is a source package of Debian 12.
        self.assertEqual(release, "bookworm")

    def test_only_the_job_that_builds_nothing_may_write(self):
        text = (ROOT / ".github/workflows/release.yml").read_text()
        self.assertIn("\npermissions: {}\n", text)
        build, publish = text[text.index("\n  build:") :].split("\n  publish:")
        self.assertNotIn(": write", build)
        self.assertNotIn("./scripts", publish)
        # `glab` is in the image of the job that makes the release, which has the files of the other job.
        release = (ROOT / ".gitlab-ci.yml").read_text().split("\nrelease:\n")[1]
        self.assertRegex(release, r"image: \S+gitlab-org/cli:")
        self.assertIn("needs: [build]", release)
        self.assertIn("glab release create", release)

    def test_pre_releases_have_the_form_of_python(self):
        forms = {"1.0.0": "1.0.0", "1.0.0-rc.1": "1.0.0rc1", "1.0.0-alpha.2": "1.0.0a2", "1.0.0-beta": "1.0.0b0"}
        for version, expected in {**forms, "1.0.0-dev.3": "1.0.0.dev3"}.items():
            self.assertEqual(self.run_in(ROOT / "scripts/python-version", version).strip(), expected)
        self.run_in(ROOT / "scripts/python-version", "1.0.0-final", succeeds=False)


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
        dpkg = new_database(root)
        self.run_in(*dpkg, "--install", "old.deb")
        self.run_in(*dpkg, "--install", package)
        self.assertFalse((root / "usr/bin/nodegauge-of-the-old-version").exists())
        self.assertIn(VERSION, self.run_in(root / "usr/bin/nodegauge", "-V"))
        self.run_in(*dpkg, "--purge", "nodegauge")
        self.assertEqual([path for path in root.rglob("*nodegauge*")], [])


class Prefix(PackageTest):
    """Installation below a folder that others use too, and removal."""

    def setUp(self):
        super().setUp()
        self.prefix = self.work / "prefix"
        self.prefix.mkdir()

    def limited(self, umask, *words):
        """Runs a command with another umask."""
        return self.run_in("sh", "-c", f'umask {umask}; exec "$@"', "sh", *words, folder=ROOT)

    def modes(self, folder):
        return {str(path.relative_to(folder)): oct(path.stat().st_mode & 0o7777) for path in folder.rglob("*")}

    def unpack(self, umask="022"):
        """Unpacks the archive by the command in the documentation."""
        chapter = (ROOT / "docs/install.md").read_text()
        (command,) = re.findall(r"`(tar -C /usr/local [^`]*)`", chapter)
        self.assertTrue(command.endswith(f" {NAME}-x86_64-linux.tar.gz"), command)
        words = command.replace("/usr/local", str(self.prefix)).replace(f"{NAME}-x86_64-linux.tar.gz", str(ARCHIVE)).split()
        self.limited(umask, *words)

    def test_installation_can_be_used_by_others_whatever_the_umask_is(self):
        self.limited("077", ROOT / "scripts/install", FILE, self.prefix)
        self.assertEqual(set(self.modes(self.prefix).values()), {"0o755", "0o644"})
        unit = (self.prefix / "lib/systemd/system/nodegauge-check.service").read_text()
        self.assertIn(f"\nExecStart={self.prefix}/bin/nodegauge check ", unit)

    def test_archive_keeps_modes_of_folders_and_has_no_unit_with_a_wrong_path(self):
        for folder in ("bin", "share", "share/man"):
            (self.prefix / folder).mkdir()
            (self.prefix / folder).chmod(0o2775)
        self.prefix.chmod(0o2775)
        before = self.modes(self.prefix)
        self.unpack()
        after = self.modes(self.prefix)
        self.assertEqual({name: after[name] for name in before}, before)
        self.assertEqual(oct(self.prefix.stat().st_mode & 0o7777), "0o2775")
        # Nothing but bin and share is in the prefix.
        self.assertEqual(sorted(path.name for path in self.prefix.iterdir()), ["bin", "share"])
        self.run_in("sha256sum", "--quiet", "--check", "share/doc/nodegauge/SHA256SUMS", folder=self.prefix)
        self.assertEqual([path for path in self.prefix.rglob("systemd")], [])

    def test_removal_keeps_files_of_others(self):
        self.unpack()
        self.limited("022", ROOT / "scripts/install", FILE, self.prefix)
        own = self.prefix / "share/doc/nodegauge/notes.txt"
        own.write_text("a note of the site")
        for _ in range(2):
            self.run_in(ROOT / "scripts/install", "--remove", self.prefix)
            self.assertEqual([path for path in self.prefix.rglob("*") if not path.is_dir()], [own])
        own.unlink()
        self.run_in(ROOT / "scripts/install", "--remove", self.prefix)
        self.assertFalse((self.prefix / "share/doc/nodegauge").exists())


class Removal(PackageTest):
    """The Debian package and the RPM disable the timer, and have the texts of their licences."""

    def setUp(self):
        super().setUp()
        if not shutil.which("dpkg-deb") or not shutil.which("rpm"):
            self.skipTest("dpkg or rpm is not installed")

    def test_timer_is_disabled_when_the_package_is_removed(self):
        root = self.work / "root"
        dpkg = new_database(root)
        package = FILES / f"nodegauge_{VERSION}_amd64.deb"
        self.run_in(*dpkg, "--install", package)
        link = root / "etc/systemd/system/timers.target.wants/nodegauge-check.timer"
        link.parent.mkdir(parents=True)
        link.symlink_to("/usr/lib/systemd/system/nodegauge-check.timer")
        # An upgrade leaves the timer as it is.
        self.run_in(*dpkg, "--install", package)
        self.assertTrue(link.is_symlink())
        self.run_in(*dpkg, "--remove", "nodegauge")
        self.assertFalse(link.is_symlink())
        scripts = self.run_in("rpm", "-qp", "--scripts", FILES / f"nodegauge-{VERSION}-1.x86_64.rpm")
        self.assertIn("systemctl disable --now nodegauge-check.timer", scripts)

    def test_packages_have_the_texts_of_their_licences(self):
        folder = self.work / "deb"
        self.run_in("dpkg-deb", "-x", FILES / f"nodegauge_{VERSION}_amd64.deb", folder)
        copyright = (folder / "usr/share/doc/nodegauge/copyright").read_text()
        self.assertIn("License: Apache-2.0", copyright)
        self.assertIn("third-party.txt", copyright)
        self.assertTrue((folder / "usr/share/doc/nodegauge/third-party.txt").is_file())
        # Only a project with an address has a home page.
        control = self.run_in("dpkg-deb", "-f", FILES / f"nodegauge_{VERSION}_amd64.deb", "Homepage")
        self.assertNotIn("example.org", control)
        marked = self.run_in("rpm", "-qpL", FILES / f"nodegauge-{VERSION}-1.x86_64.rpm")
        for name in ("LICENSE", "third-party.txt"):
            self.assertIn(f"/usr/share/licenses/nodegauge/{name}\n", marked)
        # The folder belongs to the package, so that it is removed too.
        listed = self.run_in("rpm", "-qpl", FILES / f"nodegauge-{VERSION}-1.x86_64.rpm").splitlines()
        self.assertIn("/usr/share/licenses/nodegauge", listed)
        with zipfile.ZipFile(WHEEL) as wheel:
            metadata = wheel.read(f"nodegauge-{PYTHON_VERSION}.dist-info/METADATA").decode()
            for name in re.findall(r"(?m)^License-File: (.*)$", metadata):
                self.assertIn(f"nodegauge-{PYTHON_VERSION}.dist-info/licenses/{name}", wheel.namelist())
        self.assertEqual(metadata.count("\nLicense-File: "), 2)


def new_database(root):
    """Makes a package database with only glibc, and returns the command for it."""
    for folder in ("info", "updates"):
        (root / "var/lib/dpkg" / folder).mkdir(parents=True)
    state = subprocess.run(["dpkg-query", "--status", "libc6"], capture_output=True, text=True, check=True).stdout
    (root / "var/lib/dpkg/status").write_text(state)
    (root / "var/lib/dpkg/info/libc6:amd64.list").touch()
    return ["dpkg", f"--root={root}", "--force-not-root", "--force-script-chrootless", "--log=/dev/null"]


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

    def test_commands_of_the_page_on_placement_run_on_every_node(self):
        page = (ROOT / "docs/tasks/place.md").read_text()
        commands = re.findall(r"(?m)^    ((?:NODE=|nodegauge ).*)$", page)
        self.assertGreaterEqual(len(commands), 7)
        (self.work / "nodegauge").symlink_to(FILE)
        script = "\n".join(["set -e", *commands])
        self.run_in("sh", "-c", script, PATH=f"{self.work}:{self.environment['PATH']}")

    def test_chapter_names_restrictions_and_the_processor(self):
        chapter = (ROOT / "docs/install.md").read_text()
        for word in ("SELinux", "proxy", "aarch64", "without network", "old pip"):
            self.assertIn(word, chapter)
