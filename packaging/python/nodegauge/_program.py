"""The program that this package contains."""

from __future__ import annotations

import json
import os
import platform
import shutil
import subprocess
import sysconfig
import tempfile
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import Any, Dict, List, Optional, Sequence, Tuple, Type

#: Seconds in which the program can end after SIGTERM, before it is killed.
GRACE = 5.0


class ProgramError(RuntimeError):
    """nodegauge refused a command: wrong usage (2), or something is missing (3). The text is its message."""

    def __init__(self, arguments: Sequence[str], returncode: int, stderr: str) -> None:
        super().__init__(stderr.strip() or f"nodegauge {' '.join(arguments)}: exit code {returncode}")
        self.arguments = list(arguments)
        self.returncode = returncode
        self.stderr = stderr

    def __reduce__(self) -> Tuple[Type[ProgramError], Tuple[List[str], int, str]]:
        """Processes of `multiprocessing` and of Dask return errors by pickle."""
        return ProgramError, (self.arguments, self.returncode, self.stderr)


@dataclass(frozen=True)
class Run:
    """A command that has ended."""

    #: Arguments, without those that this module added.
    arguments: List[str]
    #: Exit code: 0, or 1 if a figure is invalid or a condition is not met.
    returncode: int
    #: The page that nodegauge printed.
    stdout: str
    #: Warnings.
    stderr: str
    #: The record; None for a command without one.
    record: Optional[Dict[str, Any]]

    def figures(self, frame: str = "auto") -> Any:
        """Returns the figures, as `nodegauge.load` does."""
        from ._records import frame_of

        return frame_of([self.record] if self.record else [], frame)

    def __str__(self) -> str:
        return self.stdout


def program() -> str:
    """Returns the path of the program: that of this package, else the first on PATH."""
    name = "nodegauge"
    try:
        files = metadata.distribution(name).files or []
    except metadata.PackageNotFoundError:
        files = []
    found = [str(file.locate()) for file in files if file.name == name and file.parent.name != f"{name}"]
    found.append(os.path.join(sysconfig.get_path("scripts"), name))
    for path in found:
        if os.access(path, os.X_OK) and Path(path).is_file():
            return path
    on_path = shutil.which(name)
    if on_path is None:
        machine = platform.machine()
        reason = "" if machine == "x86_64" else f"; there is no tested binary for {machine}: build nodegauge from source"
        raise FileNotFoundError(f"the program nodegauge is neither in this package nor on PATH{reason}")
    return on_path


def run(arguments: Sequence[str], *, record: bool = True, timeout: Optional[float] = None) -> Run:
    """Runs nodegauge with these arguments, and returns its page and its record.

    record: False for a command that writes no record, e.g. ``report``. If the arguments contain ``--json``, the record is
    written where they say, and also returned.
    timeout: seconds after which the program is ended: by SIGTERM, and by SIGKILL if it still runs five seconds later.
    Raises `ProgramError` if the command is refused, and `subprocess.TimeoutExpired`, with the output up to then, after the
    timeout. An invalid figure or an unmet condition is no error: see `returncode`.
    """
    if isinstance(arguments, str):
        raise TypeError('arguments are a list of words, e.g. ["stream", "--budget", "10"]')
    words = [os.fspath(word) for word in arguments]
    options = words[: words.index("--")] if "--" in words else words
    asked = _asked(options)
    with tempfile.TemporaryDirectory(prefix="nodegauge-python-") as folder:
        file = os.path.join(folder, "record.json")
        is_added = record and asked is None
        line = [program(), *options, *(["--json", file] if is_added else []), *words[len(options) :]]
        ended = _ended(line, timeout)
        if ended.returncode not in (0, 1):
            raise ProgramError(words, ended.returncode, ended.stderr)
        written = _document(ended.stdout if asked == "-" else _content(asked or file)) if record else None
    if is_added and written is None and ended.returncode == 1:
        raise ProgramError(words, ended.returncode, ended.stderr)
    # `places` and `check` write other documents.
    is_record = isinstance(written, dict) and "measurements" in written
    return Run(words, ended.returncode, ended.stdout, ended.stderr, written if is_record else None)


def _asked(options: Sequence[str]) -> Optional[str]:
    """Returns the file of the option ``--json``, `-` for standard output; None without this option."""
    for at, word in enumerate(options):
        if word.startswith("--json="):
            return word.split("=", 1)[1]
        if word == "--json":
            following = options[at + 1] if at + 1 < len(options) else "-"
            return "-" if following.startswith("-") else following
    return None


def _content(file: str) -> Optional[str]:
    """Returns the content of a file; None if it does not exist."""
    return Path(file).read_text(encoding="utf-8") if os.path.isfile(file) else None


def _document(text: Optional[str]) -> Any:
    """Returns the JSON document in a text; None if there is none."""
    try:
        return json.loads(text) if text is not None else None
    except ValueError:
        return None


def _ended(line: List[str], timeout: Optional[float]) -> subprocess.CompletedProcess[str]:
    """Runs a command until it ends. After the timeout, it has some seconds to remove its files and its ranks."""
    pipe = subprocess.PIPE
    # The program prints UTF-8, whatever the locale of this process is.
    with subprocess.Popen(
        line, stdin=subprocess.DEVNULL, stdout=pipe, stderr=pipe, encoding="utf-8", errors="replace"
    ) as process:
        try:
            stdout, stderr = process.communicate(timeout=timeout)
        except subprocess.TimeoutExpired:
            stdout, stderr = _terminated(process)
            raise subprocess.TimeoutExpired(line, timeout or 0.0, output=stdout, stderr=stderr) from None
        except BaseException:
            _terminated(process)
            raise
    return subprocess.CompletedProcess(line, process.returncode, stdout, stderr)


def _terminated(process: subprocess.Popen[str]) -> Tuple[str, str]:
    """Ends a program, and returns its output."""
    process.terminate()
    try:
        return process.communicate(timeout=GRACE)
    except subprocess.TimeoutExpired:
        process.kill()
        return process.communicate()
