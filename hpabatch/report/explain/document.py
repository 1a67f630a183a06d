"""What `hpabatch explain` tells, as text for people and as JSON.

Both are made of the same lines; JSON has every number beside them, and every pod.
"""

from __future__ import annotations

import json
import math
from dataclasses import asdict
from typing import TYPE_CHECKING, Final

from hpabatch.engine.explain.facts import Explanation
from hpabatch.model.printable import printable, printable_line
from hpabatch.model.times import show_api_time, show_instant
from hpabatch.report.console import drawn
from hpabatch.report.explain.steps import explanation_steps
from hpabatch.report.explain.text import Step
from hpabatch.report.texts import label

if TYPE_CHECKING:
    from rich.console import RenderableType

# Instants among the numbers: shown as RFC 3339, under a name without the unit. Other `_ms` are
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


def to_table(explanation: Explanation, width: int | None = None, *, styled: bool = False) -> str:
    """Return the text for people.

    Args:
        explanation: what to tell.
        width: of the terminal, in characters; None: no terminal, so nothing is wrapped.
        styled: with ANSI styles.
    """
    parts = [
        *_head(explanation),
        "",
        _steps_table(explanation_steps(explanation)),
        "",
        *(printable_line(line) for line in _foot(explanation)),
    ]
    return drawn(parts, width, styled=styled)


def _head(explanation: Explanation) -> list[RenderableType]:
    from rich.text import Text

    decision, asked = explanation.decision, explanation.asked_ms
    name = label(explanation.cluster, explanation.namespace, explanation.hpa, with_cluster=True)
    sync = f"{printable(name)}, sync of {show_instant(explanation.sync_ms)}"
    if asked is None:
        sync += ", the last one"
    elif asked != explanation.sync_ms:
        sync += f", the last one at or before {show_instant(asked)}"
    change = f"{decision.current}, unchanged"
    if decision.rescaled or decision.binding == "scale_write":
        change = f"{decision.current} -> {decision.limited}"
    return [sync, Text(f"{change}: {decision.sentence}", style="bold")]


def _foot(explanation: Explanation) -> list[str]:
    """Return the legend and what the decision rests on."""
    of = explanation.assumed.get
    return [
        _LEGEND,
        f"Rules of Kubernetes {explanation.k8s} ({of('k8s_source')}; {of('k8s_evidence')}: "
        f"{of('k8s_proof')}).",
        f"Syncs {of('syncs')}; samples visible after {of('delay')}, for {of('max_age')}; "
        f"policies' budgets spent by the {of('events')} changes.",
        f"Flags ({of('flags')}): tolerance {of('tolerance')}, cpu initialization period "
        f"{of('cpu_initialization_period')}, initial readiness delay "
        f"{of('initial_readiness_delay')}, downscale stabilization "
        f"{of('downscale_stabilization')}.",
    ]


def _steps_table(steps: list[Step]) -> RenderableType:
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, pad_edge=False, show_header=False, padding=(0, 2, 0, 0))
    table.add_column(no_wrap=True)
    table.add_column(overflow="fold")
    before = Step("", "")
    for step in steps:
        same_step = (step.step, step.metric) == (before.step, before.metric)
        text = Text(printable_line(step.text))
        if step.upstream and not (same_step and step.upstream == before.upstream):
            text.append(f"  [{step.upstream.partition(' ')[2]}]", style="dim")
        table.add_row("" if same_step else _label(step, steps), text)
        before = step
    return table


def _label(step: Step, steps: list[Step]) -> str:
    """Return a step's name; those of a metric's parts are indented, the metric's has its number."""
    if step.metric is None:
        return step.step
    if step.step != "metric":
        return f"{_INDENT}{step.step}"
    count = max(s.metric or 0 for s in steps)
    return f"metric {step.metric}" if count > 1 else "metric"


# ---- JSON ----------------------------------------------------------------------------------------


def to_json(explanation: Explanation) -> str:
    """Return one JSON object: the numbers, and the text's lines as `steps`.

    Times are RFC 3339, lengths of time ms, quantities milli; a ratio that is no number is a text.
    """
    numbers = _plain(asdict(explanation))
    assert isinstance(numbers, dict)
    steps = [
        {"step": s.step, "metric": s.metric, "text": s.text, "upstream": s.upstream or None}
        for s in explanation_steps(explanation)
    ]
    document = numbers | {"steps": steps}
    return json.dumps(document, indent=2, allow_nan=False) + "\n"


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
