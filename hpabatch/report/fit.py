"""What `hpabatch fit` found, as a table, JSON, CSV or Parquet.

Pure functions of a `FitReport`. The table has one row per HPA, everything else one row per fact.
"""

from __future__ import annotations

import io
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import polars as pl

from hpabatch.engine.fit.workload import NOT_IDENTIFIED, RECORDED, Fact
from hpabatch.engine.fleet.candidates import Skipped
from hpabatch.model.printable import printable
from hpabatch.report.extras import json_rows
from hpabatch.report.history import frame_csv, frame_parquet
from hpabatch.report.texts import label

DIGITS: Final = 9
"""Significant digits of a fact's numbers: what follows is not known, and differs by machine."""

SCHEMA: Final[dict[str, Any]] = {
    "cluster": pl.String,
    "namespace": pl.String,
    "hpa": pl.String,
    "plant": pl.Boolean,
    "fact": pl.String,
    "value": pl.Float64,
    "unit": pl.String,
    "low": pl.Float64,
    "high": pl.Float64,
    "source": pl.String,
    "note": pl.String,
}
_HEADS: Final = (
    "HPA",
    "SIGNAL",
    "WORK",
    "BASE",
    "CEILING",
    "START-UP",
    "NOISE",
    "PODS",
    "PIECES",
    "PLANT",
)
_LEGEND: Final = (
    "Of each HPA's first signal. BASE: what a pod uses without work (95 % interval). CEILING: the\n"
    "most that it can use: a limit, or the highest that was seen. START-UP: from a pod's creation\n"
    "until it is ready. NOISE: within a piece of work, where samples are finer. PODS: ready ones.\n"
    "PIECES: resolution of the work. PLANT: yes; weak: the base is not known and taken to be 0;\n"
    "no: it cannot be simulated. -o json and -o csv have all facts, each with where it comes from."
)
_UNITS: Final = {"cores": "", "bytes": "", "s": "s"}


@dataclass(frozen=True, slots=True)
class Fitted:
    """What is told of one HPA; `has_plant`: it can be simulated."""

    cluster: str
    namespace: str
    hpa: str
    has_plant: bool
    facts: tuple[Fact, ...]
    problems: tuple[str, ...]

    def fact(self, name: str) -> Fact | None:
        """Return a fact by its name."""
        return next((f for f in self.facts if f.name == name), None)

    @property
    def signals(self) -> list[str]:
        """The names of the signals that have facts, in order."""
        parts = [f.name for f in self.facts if f.name.startswith("signals.")]
        names = [n.removeprefix("signals.").removesuffix(".kind") for n in parts if _is_kind(n)]
        return list(dict.fromkeys(names))


def _is_kind(name: str) -> bool:
    return name.endswith(".kind")


@dataclass(frozen=True, slots=True)
class FitReport:
    """Everything that is told: the HPAs in order, those left out, and what it rests on."""

    hpas: Sequence[Fitted]
    skipped: Sequence[Skipped]
    warnings: Sequence[str]
    evidence: Mapping[str, str]


# ---- table ---------------------------------------------------------------------------------------


def to_table(report: FitReport, width: int | None = None) -> str:
    """Return the text for people; `width` of the terminal, None: nothing is cut."""
    several = len({item.cluster for item in report.hpas}) > 1
    rows = [_HEADS, *(_row(item, several) for item in report.hpas)]
    weak = sum(row[-1] == "weak" for row in rows)
    without = sum(not item.has_plant for item in report.hpas)
    lines = [_head(report, weak, without), "", *_aligned(rows, width), "", _LEGEND]
    return "\n".join(lines) + "\n"


def _head(report: FitReport, weak: int, without: int) -> str:
    total = len(report.hpas)
    parts = [f"{total} HPA{'s' * (total != 1)}: {total - without} with a plant"]
    if weak:
        parts.append(f"{weak} of them without a known base")
    if without:
        parts.append(f"{without} without a plant (why: on stderr)")
    return ", ".join(parts)


def _aligned(rows: Sequence[Sequence[str]], width: int | None) -> Iterator[str]:
    cells = [[printable(cell) for cell in row] for row in rows]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    for row in cells:
        padded = (cell.ljust(w) for cell, w in zip(row, widths, strict=True))
        line = "  ".join(padded).rstrip()
        yield line if width is None or len(line) <= width else f"{line[: width - 1]}…"


def _row(item: Fitted, several: bool) -> tuple[str, ...]:
    name = label(item.cluster, item.namespace, item.hpa, with_cluster=several)
    signal = _first(item)
    path = f"signals.{signal}"
    others = len(item.signals) - 1
    more = f" +{others}" if others > 0 else ""
    kind = item.fact(f"{path}.kind")
    return (
        name,
        signal.removeprefix("resource/") + more if signal else "-",
        kind.note.replace("_", " ") if kind is not None else "-",
        _base_text(item.fact(f"{path}.base")),
        _ceiling_text(item.fact(f"{path}.ceiling")),
        _startup_text(item.fact("pods.startup")),
        _noise_text(item.fact("noise")),
        _pods_text(item.fact("pods.ready")),
        _seconds_text(item.fact("resolution")),
        _plant_text(item),
    )


def _first(item: Fitted) -> str:
    """Return the signal that is shown: the first one of which pods do work, else the first."""
    names = item.signals
    for kinds in (("divisible", "per_pod"), ("backlog", "total")):
        for name in names:
            kind = item.fact(f"signals.{name}.kind")
            if kind is not None and kind.note in kinds:
                return name
    return names[0] if names else ""


def _plant_text(item: Fitted) -> str:
    if not item.has_plant:
        return "no"
    unknown = (f.source == NOT_IDENTIFIED for f in item.facts if f.name.endswith(".base"))
    return "weak" if any(unknown) else "yes"


def amount_text(value: float, unit: str) -> str:
    """Return a number for people: cores in m below one, bytes in Mi."""
    if unit.startswith("bytes"):
        return f"{value / 2**20:.4g}Mi"
    if unit.startswith("cores") and abs(value) < 1:
        return f"{value * 1000:.3g}m" if value else "0"
    return f"{value:.4g}"


def _base_text(fact: Fact | None) -> str:
    if fact is None:
        return "-"
    if fact.source == NOT_IDENTIFIED:
        below = "" if fact.high is None else f", ≤ {amount_text(fact.high, fact.unit)}"
        return f"not identified{below}"
    text = amount_text(fact.value or 0.0, fact.unit)
    if fact.low is None or fact.high is None:
        return f"{text} ({fact.source})"
    return f"{text} ({amount_text(fact.low, fact.unit)} to {amount_text(fact.high, fact.unit)})"


def _ceiling_text(fact: Fact | None) -> str:
    if fact is None:
        return "-"
    if fact.value is None:
        return "none"
    word = {RECORDED: "limit", "given": "given"}.get(fact.source, "seen")
    return f"{amount_text(fact.value, fact.unit)} {word}"


def _startup_text(fact: Fact | None) -> str:
    if fact is None or fact.value is None:
        return "-"
    if fact.low is None or fact.high is None:
        return f"{fact.value:.3g}s {fact.source}"
    return f"{fact.value:.3g}s ({fact.low:.3g}-{fact.high:.3g})"


def _noise_text(fact: Fact | None) -> str:
    return "-" if fact is None or fact.value is None else f"{fact.value:.1%}"


def _pods_text(fact: Fact | None) -> str:
    return "-" if fact is None or fact.value is None else f"{fact.low:g}-{fact.high:g}"


def _seconds_text(fact: Fact | None) -> str:
    return "-" if fact is None or fact.value is None else f"{fact.value:g}s"


# ---- facts ---------------------------------------------------------------------------------------


def frame(report: FitReport) -> pl.DataFrame:
    """Return one row per HPA and fact, in order; a problem is a fact `problem` with its note."""
    rows = [
        (item.cluster, item.namespace, item.hpa, item.has_plant, *_values(fact))
        for item in report.hpas
        for fact in (*item.facts, *map(_problem, item.problems))
    ]
    return pl.DataFrame(rows, schema=SCHEMA, orient="row")


def _problem(text: str) -> Fact:
    return Fact("problem", None, "", None, None, NOT_IDENTIFIED, text)


def _values(fact: Fact) -> tuple[object, ...]:
    numbers = [rounded(v) for v in (fact.value, fact.low, fact.high)]
    return fact.name, numbers[0], fact.unit, numbers[1], numbers[2], fact.source, fact.note


def rounded(value: float | None) -> float | None:
    """Return a number with DIGITS significant digits."""
    return None if value is None else float(f"{value:.{DIGITS}g}")


def to_csv(report: FitReport) -> str:
    """Return the facts as CSV with a header."""
    return frame_csv(frame(report))


def to_parquet(report: FitReport) -> bytes:
    """Return the facts as a Parquet file."""
    return frame_parquet(frame(report))


def to_json(report: FitReport) -> str:
    """Return one JSON object with everything; an HPA is a line."""
    head = json.dumps({"evidence": dict(report.evidence)}, indent=2)[:-2]
    skipped = [
        {"cluster": s.cluster, "namespace": s.namespace, "hpa": s.hpa, "reason": s.reason}
        for s in report.skipped
    ]
    out = io.StringIO()
    out.write(f'{head},\n  "hpas": {json_rows(_item(item) for item in report.hpas)},\n')
    out.write(f'  "skipped": {json_rows(iter(skipped))},\n')
    out.write(f'  "warnings": {json.dumps(list(report.warnings))}\n}}\n')
    return out.getvalue()


def _item(item: Fitted) -> dict[str, object]:
    names = ("name", "value", "unit", "low", "high", "source", "note")
    return {
        "cluster": item.cluster,
        "namespace": item.namespace,
        "hpa": item.hpa,
        "plant": item.has_plant,
        "problems": list(item.problems),
        "facts": [dict(zip(names, _values(fact), strict=True)) for fact in item.facts],
    }
