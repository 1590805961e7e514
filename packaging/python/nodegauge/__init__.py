"""Figures of nodegauge as tidy rows, and the program itself.

    import nodegauge

    figures = nodegauge.load("*.json")          # records that --json wrote, or lines of `nodegauge history export`
    figures = nodegauge.history("nps=4")        # saved runs of this node
    run = nodegauge.run(["stream", "--budget", "10"])
    run.figures()

A row is one figure: what was measured, its value and unit, and whether it is valid. Rows are dicts; with pandas or polars
installed, they come as a data frame. The module needs nothing but Python.
"""

from __future__ import annotations

from ._program import ProgramError, Run, program, run
from ._records import RecordError, Row, figures_of, frame_of, history, load, read

__all__ = [
    "ProgramError",
    "RecordError",
    "Row",
    "Run",
    "figures_of",
    "frame_of",
    "history",
    "load",
    "program",
    "read",
    "run",
]
