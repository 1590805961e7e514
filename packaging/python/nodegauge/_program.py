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
from typing import Any, Dict, List, Optional, Sequence

#: Options with which the caller reads the record without this module.
_RECORD_OPTIONS = ("--json", "--csv", "--stream-text")


class ProgramError(RuntimeError):
    """nodegauge refused a command: wrong usage (2), or something is missing (3). The text is its message."""

    def __init__(self, arguments: Sequence[str], returncode: int, stderr: str) -> None:
        super().__init__(stderr.strip() or f"nodegauge {' '.join(arguments)}: exit code {returncode}")
        self.returncode = returncode


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

    record: False for a command that writes no record, e.g. ``report``.
    Raises `ProgramError` if the command is refused. An invalid figure or an unmet condition is no error: see `returncode`.
    """
    if isinstance(arguments, str):
        raise TypeError('arguments are a list of words, e.g. ["stream", "--budget", "10"]')
    words = [os.fspath(word) for word in arguments]
    options = words[: words.index("--")] if "--" in words else words
    asked = any(word.split("=", 1)[0] in _RECORD_OPTIONS for word in options)
    with tempfile.TemporaryDirectory(prefix="nodegauge-python-") as folder:
        file = os.path.join(folder, "record.json")
        extra = ["--json", file] if record and not asked else []
        line = [program(), *options, *extra, *words[len(options) :]]
        ended = subprocess.run(line, capture_output=True, text=True, timeout=timeout, stdin=subprocess.DEVNULL)
        if ended.returncode not in (0, 1):
            raise ProgramError(words, ended.returncode, ended.stderr)
        written = json.loads(Path(file).read_text(encoding="utf-8")) if os.path.exists(file) else None
    # `machine` and `places` write other documents.
    is_record = isinstance(written, dict) and "measurements" in written
    if extra and written is None and ended.returncode == 1:
        raise ProgramError(words, ended.returncode, ended.stderr)
    return Run(words, ended.returncode, ended.stdout, ended.stderr, written if is_record else None)
