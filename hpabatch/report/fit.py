"""The result of `hpabatch fit`: one row per HPA in the table, else one row per fact."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, Final

import polars as pl

from hpabatch.engine.columns.simulate import FIT_FACTS
from hpabatch.engine.fit.run import Fitted, FleetFit
from hpabatch.engine.fit.workload import NOT_IDENTIFIED, OPEN, RECORDED, Fact
from hpabatch.model.printable import counted
from hpabatch.report.base import (
    HPA,
    Grid,
    Head,
    Layout,
    Line,
    Result,
    Rows,
    View,
    label,
    skipped_rows,
)
from hpabatch.report.lens import lens_told, ratio_lines
from hpabatch.report.numbers import memory

DIGITS: Final = 9
"""Significant digits of a fact's numbers: what follows is not known, and differs by machine."""

HEADS: Final = (
    HPA,
    Head("SIGNAL", "the first signal of the plant", "signal", left=True),
    Head("WORK", "kind of the signal's work", "kind",
         lambda fact: "-" if fact is None else fact.note.replace("_", " "), left=True),
    Head("BASE", "what a pod uses without work, with its 95 % interval", "base",
         lambda fact: _base_cell(fact), left=True),
    Head("CEILING", "the most that a pod can use: a limit, or the highest seen", "ceiling",
         lambda fact: _ceiling_cell(fact), left=True),
    Head("START-UP", "time from a pod's creation until it is ready", "startup",
         lambda fact: _startup_cell(fact), left=True),
    Head("PODS", "number of ready pods", "pods",
         lambda fact: _formatted(fact, "{0.low:g}-{0.high:g}"), left=True),
    Head("PIECES", "resolution of the work", "pieces",
         lambda fact: _formatted(fact, "{0.value:g}s"), left=True),
    Head("PLANT", "yes; weak (base taken to be 0); no (cannot be simulated)", "plant", left=True),
)  # fmt: skip


@dataclass(frozen=True, repr=False)
class Fits(Result):
    """What is known of each workload."""

    result: FleetFit
    layout: ClassVar[Layout] = Layout(keys=2)

    @property
    def verdict(self) -> str:
        """How many HPAs can be simulated."""
        hpas = self.result.hpas
        weak = sum(_plant_cell(item) == "weak" for item in hpas)
        without = sum(not item.has_plant for item in hpas)
        parts = [f"{counted(len(hpas), 'HPA')}: {len(hpas) - without} with a plant"]
        if weak:
            parts.append(f"{weak} of them without a known base")
        if without:
            parts.append(f"{without} without a plant (why: on stderr)")
        return ", ".join(parts)

    @property
    def frame(self) -> pl.DataFrame:
        """The facts."""
        return self.facts

    @cached_property
    def facts(self) -> pl.DataFrame:
        """One row per HPA and fact: value, interval, source, note; also `problem`, with a note."""
        rows = [
            (item.cluster, item.namespace, item.hpa, item.has_plant, *_values(fact))
            for item in self.result.hpas
            for fact in (*item.facts, *map(_problem, item.problems))
        ]
        return pl.DataFrame(rows, schema=FIT_FACTS.schema, orient="row")

    @cached_property
    def hpas(self) -> pl.DataFrame:
        """One row per HPA: whether it has a plant, and what is in the way."""
        rows = [
            (item.cluster, item.namespace, item.hpa, item.has_plant, list(item.problems))
            for item in self.result.hpas
        ]
        names = dict.fromkeys(("cluster", "namespace", "hpa"), pl.String())
        schema = names | {"plant": pl.Boolean(), "problems": pl.List(pl.String)}
        return pl.DataFrame(rows, schema=schema, orient="row")

    @property
    def evidence(self) -> dict[str, str]:
        """The versions, parameters and digests that the fits rest on."""
        return self.result.evidence

    def body(self, view: View) -> Iterator[str | Grid]:
        """Generate the HPAs, each with its first signal."""
        yield from ratio_lines(self.evidence)
        several = len({item.cluster for item in self.result.hpas}) > 1
        rows = [_row(item, several) for item in self.result.hpas]
        yield Grid.of(HEADS, rows, frame=self.frame, columns=FIT_FACTS.columns)

    def basis(self) -> list[str]:
        """Return the lens that was asked for."""
        told = lens_told(self.evidence).removeprefix("; ")
        return [told] if told else []

    def hints(self) -> list[str]:
        """Return where all facts are."""
        return ["all facts, each with its source: -o json, -o csv"]

    def document(self) -> dict[str, Any]:
        """Return everything; an HPA is a line."""
        return {
            "evidence": dict(self.evidence),
            "hpas": Rows(_item(item) for item in self.result.hpas),
            "skipped": skipped_rows(self.result.skipped),
            "warnings": Line(list(self.result.warnings)),
        }


def _problem(reason: str) -> Fact:
    return Fact("problem", None, "", None, None, NOT_IDENTIFIED, reason)


def _values(fact: Fact) -> tuple[object, ...]:
    value, low, high = (rounded(v) for v in (fact.value, fact.low, fact.high))
    return fact.name, value, fact.unit, low, high, fact.source, fact.note


def rounded(value: float | None) -> float | None:
    """Return a number with DIGITS significant digits."""
    return None if value is None else float(f"{value:.{DIGITS}g}")


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


# ---- cells ---------------------------------------------------------------------------------------


def _row(item: Fitted, several: bool) -> dict[str, Any]:
    """Return the facts that are shown of an HPA and its first signal."""
    signal = _first(item)
    others = len(item.signals) - 1
    more = f" +{others}" if others > 0 else ""
    own = {name: item.fact(f"signals.{signal}.{name}") for name in ("kind", "base", "ceiling")}
    names = {"startup": "pods.startup", "pods": "pods.ready", "pieces": "resolution"}
    return {
        "label": label(item.cluster, item.namespace, item.hpa, with_cluster=several),
        "signal": signal.removeprefix("resource/") + more if signal else "-",
        **own,
        **{name: item.fact(fact) for name, fact in names.items()},
        "plant": _plant_cell(item),
    }


def _first(item: Fitted) -> str:
    """Return the signal that is shown: the first one of which pods do work, else the first."""
    names = item.signals
    for kinds in (("divisible", "per_pod"), ("backlog", "total")):
        for name in names:
            kind = item.fact(f"signals.{name}.kind")
            if kind is not None and kind.note in kinds:
                return name
    return names[0] if names else ""


def _plant_cell(item: Fitted) -> str:
    if not item.has_plant:
        return "no"
    unknown = (f.source == NOT_IDENTIFIED for f in item.facts if f.name.endswith(".base"))
    return "weak" if any(unknown) else "yes"


def amount_text(value: float, unit: str) -> str:
    """Return a number for people: cores in m below one, bytes in Mi."""
    if unit.startswith("bytes"):
        return memory(value)
    if unit.startswith("cores") and abs(value) < 1:
        return f"{value * 1000:.3g}m" if value else "0"
    return f"{value:.4g}"


def _base_cell(fact: Fact | None) -> str:
    if fact is None:
        return "-"
    if fact.source == NOT_IDENTIFIED:
        below = "" if fact.high is None else f", ≤ {amount_text(fact.high, fact.unit)}"
        return f"not identified{below}"
    value = amount_text(fact.value or 0.0, fact.unit)
    if fact.low is None or fact.high is None:
        return f"{value} ({fact.source})"
    return f"{value} ({amount_text(fact.low, fact.unit)} to {amount_text(fact.high, fact.unit)})"


def _ceiling_cell(fact: Fact | None) -> str:
    if fact is None:
        return "-"
    if fact.value is None:
        return "open" if fact.source == OPEN else "none"
    word = "limit" if fact.source == RECORDED else fact.source
    return f"{amount_text(fact.value, fact.unit)} {word}"


def _formatted(fact: Fact | None, form: str) -> str:
    return "-" if fact is None or fact.value is None else form.format(fact)


def _startup_cell(fact: Fact | None) -> str:
    if fact is None or fact.value is None:
        return "-"
    if fact.low is None or fact.high is None:
        return f"{fact.value:.3g}s {fact.source}"
    return f"{fact.value:.3g}s ({fact.low:.3g}-{fact.high:.3g})"
