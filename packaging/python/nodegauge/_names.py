"""Names that distinguish the figures of one record, for tools in which a figure is a name, a value and a unit."""

from __future__ import annotations

import re
from typing import Any, Dict, Iterable, Iterator, List, Sequence, Set

Figure = Dict[str, Any]

#: Keys of the configuration that are always part of a name, so that the name does not depend on the other sizes of a run.
SIZES = ("file_bytes", "block_bytes", "cache", "message_bytes", "distance")
#: Keys that are part of a name if figures would have the same name without them, in this order: properties of what was
#: measured, requested settings, choices of the run. Observed values, e.g. seconds, would differ between runs.
DISTINGUISHING = (
    "host",
    "program",
    "kernel",
    "case",
    "element",
    "device",
    "device_name",
    "host_memory",
    "host_node",
    "peer",
    "route",
    "array_bytes",
    "set_bytes",
    "n",
    "copies",
    "read_percent",
    "directories",
    "mpi",
    "blas",
    "engine",
    "compiler",
    "sweep",
    "under",
    "variables",
    "threads",
    "processes",
    "ranks",
    "places_asked",
    "policy",
    "bind",
    "memory_policy",
    "pages",
    "version",
    "engine_version",
    "nb",
    "p",
    "q",
    "pairs",
    "window",
    "depth",
    "direct",
    "sync_writes",
    "volume",
    "job",
    "stage",
    "batch",
    "variant",
    "isa",
    "stores",
    "prefetch",
    "vector_bits",
    "vector_elements",
    "unroll",
    "cpus",
    "places",
)
#: Parts of values that distinguish figures; other parts describe how the value came about.
PARTS = {"mpi": ("library", "version"), "compiler": ("command", "flags"), "pages": ("asked",)}


def names_of(figures: Iterable[Figure]) -> List[str]:
    """Returns a name for each figure of a record, e.g. ``triad``, ``latency_8`` or ``triad_n01``.

    The names differ, and runs of the same command have the same names.
    """
    every = list(figures)
    names = [_joined([figure["name"], *(_config(figure, key) for key in SIZES)]) for figure in every]
    groups: Dict[str, List[int]] = {}
    for at, name in enumerate(names):
        groups.setdefault(name, []).append(at)
    taken = {name for name, group in groups.items() if len(group) == 1}
    for name, group in groups.items():
        if len(group) > 1:
            for at, longer in zip(group, _distinct(name, [every[at] for at in group])):
                names[at] = _free(longer, taken)
    return names


def _distinct(name: str, figures: Sequence[Figure]) -> List[str]:
    """Returns longer names of figures that have the same name."""
    parts: List[List[str]] = [[name] for _ in figures]

    def differ() -> int:
        return len({tuple(own) for own in parts})

    def add(values: List[str]) -> None:
        before = differ()
        longer = [[*own, value] if value else own for own, value in zip(parts, values)]
        if len({tuple(own) for own in longer}) > before:
            parts[:] = longer

    add([_text(figure.get("test")) for figure in figures])
    for key in DISTINGUISHING:
        if differ() == len(parts):
            break
        add([_labelled(key, _config(figure, key)) for figure in figures])
    if differ() < len(parts):
        add([_text(str(figure.get("unit")).replace("/", "_per_")) for figure in figures])
    return [_joined(own) for own in parts]


def _free(name: str, taken: Set[str]) -> str:
    """Returns the name, with a number if another figure has it."""
    number = 1
    found = name
    while found in taken:
        number += 1
        found = f"{name}_{number}"
    taken.add(found)
    return found


def _config(figure: Figure, key: str) -> Any:
    return (figure.get("config") or {}).get(key)


def _joined(parts: Iterable[Any]) -> str:
    return "_".join(text for text in map(_text, parts) if text)


def _labelled(key: str, value: Any) -> str:
    """Returns a value of the configuration as part of a name; numbers with their key, e.g. ``threads_8``."""
    if isinstance(value, dict):
        wanted = PARTS.get(key, tuple(value))
        if key == "sweep":
            return _joined(_labelled(axis, value[axis]) for axis in wanted)
        return _joined(value[part] for part in wanted if part in value)
    text = _text(value)
    return _joined([key, text]) if isinstance(value, bool) or re.fullmatch(r"[0-9._]+", text) else text


def _text(value: Any) -> str:
    """Returns a value as part of a name: letters, digits and ``_.+-``. References of ReFrame use `:` for other purposes."""
    return re.sub(r"[^A-Za-z0-9_.+-]+", "_", "_".join(_leaves(value))).strip("_")


def _leaves(value: Any) -> Iterator[str]:
    """Returns the texts and numbers in a value."""
    if isinstance(value, (dict, list)):
        for inside in value.values() if isinstance(value, dict) else value:
            yield from _leaves(inside)
    elif isinstance(value, bool):
        yield "yes" if value else "no"
    elif value is not None:
        yield str(value)
