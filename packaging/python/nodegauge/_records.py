"""Records as rows: one row per figure, with the same columns in every row."""

from __future__ import annotations

import glob
import json
import os
from datetime import datetime, timezone
from pathlib import Path
from typing import Any, Dict, Iterable, List, Optional, Union

Row = Dict[str, Any]
Record = Dict[str, Any]
PathLike = Union[str, "os.PathLike[str]"]

#: Prefix of the `schema` of records that this module can read.
SCHEMA = "nodegauge/1"
#: Columns of every row; those of labels and of the configuration follow.
COLUMNS = (
    "run",
    "started",
    "host",
    "complete",
    "gauge",
    "test",
    "name",
    "value",
    "unit",
    "quoted",
    "validity",
    "reasons",
    "n",
    "best",
    "median",
    "p05",
    "p95",
    "ci95_low",
    "ci95_high",
    "limit",
    "share_of_limit",
    "category",
)
#: Parts of a figure that are objects.
PARTS = ("summary", "limit", "validity", "config")
#: Values of `frame`.
FRAMES = ("auto", "pandas", "polars", "rows")


class RecordError(ValueError):
    """A file or a line is not a record of nodegauge. The text names the file."""


def load(*patterns: PathLike, frame: str = "auto") -> Any:
    """Returns the figures of records in files.

    A pattern is a path or a glob, e.g. ``"results/*.json"``. A file contains one record (``--json``), or one record a
    line (``nodegauge history export``).

    frame: ``"auto"`` for a data frame of pandas, else of polars, else a list of dicts; or ``"pandas"``, ``"polars"``,
    ``"rows"``. In a data frame, ``started`` is a time in UTC.
    Raises `FileNotFoundError` if no file matches, and `RecordError` if a file is not a record.
    """
    return frame_of(read(*patterns), frame)


def history(*runs: str, db: Optional[PathLike] = None, frame: str = "auto") -> Any:
    """Returns the figures of saved runs: all, or those of identifiers and labels, e.g. ``history("nps=4")``."""
    from ._program import run

    words = ["history", "export", *runs]
    if db is not None:
        words += ["--db", os.fspath(db)]
    return frame_of(_records_in(run(words, record=False).stdout, "the history"), frame)


def read(*patterns: PathLike) -> List[Record]:
    """Returns the records in files without changes."""
    if not patterns:
        raise TypeError("read and load need a file or a pattern, e.g. '*.json'")
    records: List[Record] = []
    for pattern in patterns:
        for path in _files(os.fspath(pattern)):
            records.extend(_records_in(_text_of(path), str(path)))
    return records


def _text_of(path: Path) -> str:
    """Returns the text of a file. Some editors and PowerShell begin a file with the mark of UTF-8."""
    try:
        return path.read_text(encoding="utf-8-sig")
    except UnicodeDecodeError as error:
        raise RecordError(f"{path}: not text in UTF-8: {error.reason} at byte {error.start}") from None


def _files(pattern: str) -> List[Path]:
    """Returns the files that a path or a pattern names, sorted."""
    if Path(pattern).is_file():
        return [Path(pattern)]
    found = sorted(Path(name) for name in glob.glob(pattern, recursive=True) if Path(name).is_file())
    if not found:
        raise FileNotFoundError(f"no file matches {pattern!r}")
    return found


def _records_in(text: str, source: str) -> List[Record]:
    """Returns the records in a text: one record, a list, or one per line."""
    if not text.strip():
        return []
    try:
        whole = json.loads(text)
        found = whole if isinstance(whole, list) else [whole]
    except json.JSONDecodeError:
        # Only a line feed ends a record: texts in it can contain other line breaks, e.g. U+2028.
        found = [_parsed(line, f"{source}, line {at}") for at, line in enumerate(text.split("\n"), 1) if line.strip()]
    except RecursionError:
        raise RecordError(f"{source}: not a record of nodegauge: nested too deeply") from None
    for record in found:
        _check(record, source)
    return found


def _parsed(line: str, source: str) -> Any:
    try:
        return json.loads(line)
    except (json.JSONDecodeError, RecursionError) as error:
        raise RecordError(f"{source}: not JSON: {error}") from None


def _check(record: Any, source: str) -> None:
    """Raises `RecordError` if a document is not a record with figures."""
    schema = record.get("schema") if isinstance(record, dict) else None
    if schema != SCHEMA:
        raise RecordError(f"{source}: not a record of nodegauge (schema {schema!r}, expected {SCHEMA!r})")
    figures = record.get("measurements")
    if not isinstance(figures, list) or not all(isinstance(figure, dict) for figure in figures):
        raise RecordError(f"{source}: not a record of nodegauge: measurements are not a list of figures")
    for part, holders in (("machine", [record]), ("labels", [record]), *((key, figures) for key in PARTS)):
        for holder in holders:
            if not isinstance(holder.get(part) or {}, dict):
                raise RecordError(f"{source}: not a record of nodegauge: {part} is not an object")


def figures_of(records: Iterable[Record]) -> List[Row]:
    """Returns a row for each figure of the records. All rows have the same columns; a value that is unknown is None."""
    rows = [_row(record, measurement) for record in records for measurement in record["measurements"]]
    columns: Dict[str, None] = dict.fromkeys(COLUMNS)
    for kind in ("label.", "config."):
        columns.update(dict.fromkeys(sorted({key for row in rows for key in row if key.startswith(kind)})))
    return [{column: row.get(column) for column in columns} for row in rows]


def _row(record: Record, measurement: Dict[str, Any]) -> Row:
    summary = measurement.get("summary") or {}
    interval = summary.get("ci95") or [None, None]
    limit = measurement.get("limit") or {}
    validity = measurement.get("validity") or {}
    row: Row = {
        "run": record.get("id"),
        "started": record.get("started"),
        "host": (record.get("machine") or {}).get("host"),
        "complete": record.get("complete"),
        "gauge": measurement.get("gauge"),
        "test": measurement.get("test"),
        "name": measurement.get("name"),
        "value": measurement.get("value"),
        "unit": measurement.get("unit"),
        "quoted": measurement.get("quoted"),
        "validity": validity.get("status"),
        "reasons": "; ".join(validity.get("reasons") or []),
        "n": summary.get("n"),
        "best": summary.get("best"),
        "median": summary.get("median"),
        "p05": summary.get("p05"),
        "p95": summary.get("p95"),
        "ci95_low": interval[0],
        "ci95_high": interval[1],
        "limit": limit.get("value"),
        "share_of_limit": limit.get("fraction"),
        "category": measurement.get("category"),
    }
    row.update({f"label.{key}": value for key, value in (record.get("labels") or {}).items()})
    row.update({f"config.{key}": _plain(value) for key, value in (measurement.get("config") or {}).items()})
    return row


def _plain(value: Any) -> Any:
    """Returns lists and objects as JSON, so that a column has values that can be compared and grouped."""
    return json.dumps(value) if isinstance(value, (dict, list)) else value


def frame_of(records: Iterable[Record], frame: str = "auto") -> Any:
    """Returns the figures of records as a data frame, or as a list of dicts."""
    if frame not in FRAMES:
        raise ValueError(f"frame {frame!r}: expected {', '.join(FRAMES)}")
    rows = figures_of(records)
    if frame == "rows":
        return rows
    makers = {"pandas": _pandas, "polars": _polars}
    if frame != "auto":
        return makers[frame](rows)
    for maker in makers.values():
        try:
            return maker(rows)
        except ImportError:
            continue
    return rows


def _pandas(rows: List[Row]) -> Any:
    import pandas

    made = pandas.DataFrame(rows, columns=list(rows[0]) if rows else list(COLUMNS))
    made["started"] = pandas.to_datetime(made["started"], utc=True, format="ISO8601")
    return made


def _polars(rows: List[Row]) -> Any:
    import polars

    time = polars.Datetime("us", "UTC")
    if not rows:
        return polars.DataFrame(schema={column: time if column == "started" else polars.Null for column in COLUMNS})
    timed = [{**row, "started": _time(row["started"])} for row in rows]
    # A key of the configuration can be a number in one figure and a text in another.
    return polars.DataFrame(timed, schema_overrides={"started": time}, infer_schema_length=None, strict=False)


def _time(text: Optional[str]) -> Optional[datetime]:
    """Returns the time of a text of RFC 3339, e.g. ``2026-11-21T20:06:24Z``."""
    # Before version 3.11, Python does not know the letter for UTC.
    return datetime.fromisoformat(text.replace("Z", "+00:00")).astimezone(timezone.utc) if text else None
