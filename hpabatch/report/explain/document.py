"""The result of `hpabatch explain`: the steps of one decision.

JSON has every number beside them, and every pod.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Any, ClassVar, Final

import polars as pl

from hpabatch.engine.columns.history import EXPLANATION
from hpabatch.engine.explain.facts import Explanation
from hpabatch.model.printable import printable
from hpabatch.model.times import show_api_time, show_instant
from hpabatch.report.base import Grid, Head, Layout, Result, View, label
from hpabatch.report.explain.steps import explanation_steps
from hpabatch.report.explain.summary import summary_sentence
from hpabatch.report.explain.text import Step
from hpabatch.report.forms import table_text

# Numbers that are points in time: shown as RFC 3339, under a name without the unit. Other `_ms` are
# lengths of time.
_INSTANTS: Final = {
    f"{name}_ms": name
    for name in (
        "asked", "sync", "started", "transition", "sample", "at", "up_since", "down_since",
        "since", "next", "restarted", "first", "last",
    )
}  # fmt: skip
_INDENT: Final = "  "
_LEGEND: Final = (
    "[…]: functions of Kubernetes' pkg/controller/podautoscaler: Get…Replicas, get…Count, "
    "calcPlainMetricReplicas, groupPods and Tolerances in replica_calculator.go, Get…Ratio in "
    "metrics/utilization.go, all others in horizontal.go."
)
_HEADS: Final = (
    Head.of(EXPLANATION["step"], "STEP", left=True),
    Head.of(EXPLANATION["text"], "RESULT", left=True, folds=True),
)


@dataclass(frozen=True, repr=False)
class Explained(Result):
    """The explanation of one sync of one HPA.

    Attributes:
        facts: every number that the rules read and wrote.
    """

    facts: Explanation
    layout: ClassVar[Layout] = Layout(keys=2)

    @property
    def verdict(self) -> str:
        """The change of size, and why."""
        decision = self.facts.decision
        change = f"{decision.current}, unchanged"
        if decision.rescaled or decision.binding == "scale_write":
            change = f"{decision.current} -> {decision.limited}"
        return f"{change}: {decision.sentence}"

    def body(self, view: View) -> Iterator[str | Grid]:
        """Generate which sync it was, and the steps."""
        explanation, asked = self.facts, self.facts.asked_ms
        name = label(explanation.cluster, explanation.namespace, explanation.hpa, with_cluster=True)
        sync = f"{printable(name)}, sync of {show_instant(explanation.sync_ms)}"
        if asked is None:
            sync += ", the last one"
        elif asked != explanation.sync_ms:
            sync += f", the last one at or before {show_instant(asked)}"
        yield sync
        yield ""
        yield _steps_grid(explanation_steps(explanation))
        if view.legend:
            yield ""
            yield _LEGEND

    def basis(self) -> list[str]:
        """Return version, parameters and flags."""
        of = self.facts.assumed.get
        return [
            f"Rules of Kubernetes {self.facts.k8s} ({of('k8s_source')}; "
            f"{of('k8s_evidence')}: {of('k8s_proof')}).",
            f"Syncs {of('syncs')}; samples visible after {of('delay')}, for {of('max_age')}; "
            f"policies' budgets spent by the {of('events')} changes.",
            f"Flags ({of('flags')}): tolerance {of('tolerance')}, cpu initialization period "
            f"{of('cpu_initialization_period')}, initial readiness delay "
            f"{of('initial_readiness_delay')}, downscale stabilization "
            f"{of('downscale_stabilization')}.",
        ]

    def hints(self) -> list[str]:
        """Return the decision in one plain sentence: what is read last."""
        return [summary_sentence(self.facts)]

    @property
    def frame(self) -> pl.DataFrame:
        """One row per step: its name, metric and arithmetic, and the upstream function."""
        return pl.DataFrame(list(self._steps()), schema=EXPLANATION.schema)

    @property
    def text(self) -> str:
        """The steps, one below the other."""
        return table_text(self)

    def _steps(self) -> Iterator[dict[str, str | int | None]]:
        for s in explanation_steps(self.facts):
            yield {
                "step": s.step, "metric": s.metric, "text": s.text, "upstream": s.upstream or None,
            }  # fmt: skip

    def document(self) -> dict[str, Any]:
        """Return the numbers, the table's lines as `steps`, its last sentence as `summary`.

        Timestamps are RFC 3339, lengths of time ms, quantities milli; a ratio that is no number is
        a string.
        """
        numbers = _plain(asdict(self.facts))
        assert isinstance(numbers, dict)
        summary = summary_sentence(self.facts)
        return numbers | {"steps": list(self._steps()), "summary": summary}


def _steps_grid(steps: list[Step]) -> Grid:
    rows = []
    before = Step("", "")
    for step in steps:
        same_step = (step.step, step.metric) == (before.step, before.metric)
        line = step.text
        if step.upstream and not (same_step and step.upstream == before.upstream):
            line += f"  [{step.upstream.partition(' ')[2]}]"
        rows.append(("" if same_step else _label(step, steps), line))
        before = step
    return Grid(_HEADS, rows, with_heads=False, quotes=True)


def _label(step: Step, steps: list[Step]) -> str:
    """Return a step's name; those of a metric's parts are indented, the metric's has its number."""
    if step.metric is None:
        return step.step
    if step.step != "metric":
        return f"{_INDENT}{step.step}"
    count = max(s.metric or 0 for s in steps)
    return f"metric {step.metric}" if count > 1 else "metric"


def _plain(value: object) -> object:
    """Return what JSON can hold."""
    if isinstance(value, dict):
        return {_INSTANTS.get(k, k): _plain(_instant(k, v)) for k, v in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        return "NaN" if math.isnan(value) else ("+Inf" if value > 0 else "-Inf")
    return value


def _instant(name: str, value: object) -> object:
    return show_api_time(value) if name in _INSTANTS and isinstance(value, int) else value
