"""Kind of memory: of what pods share and of what each has, from changes of size."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from hpabatch.engine.fit.kinds import Kind, kind_of
from hpabatch.inputs.plants import SignalOverride
from tests.engine.closed_loop import run_loop, usage_of

NAME = "resource/memory"


def told(value: Any, target: int) -> Kind:
    """Return the kind of memory that is `value` per pod, of (ready, work), by a target in milli."""
    loop = run_loop(1, 100)
    values = np.asarray(value(loop.ready, loop.work), np.float64)
    wanted = {"type": "AverageValue", "averageValue": f"{target}m"}
    metric = {"type": "Resource", "resource": {"name": "memory", "target": wanted}}
    usage = usage_of(loop, [metric], memory=values)
    return kind_of(NAME, usage, usage.signals[NAME], SignalOverride())


def test_a_fixed_total_that_all_pods_share_is_divisible() -> None:
    found = told(lambda ready, work: 50 + 4000 / ready, 500)
    assert (found.kind, found.source) == ("divisible", "fitted")


@pytest.mark.parametrize(("target", "kind"), [(100, ""), (10_000, "age")])
def test_undecided_memory_that_asks_for_pods_gives_no_number_but_a_question(
    target: int, kind: str
) -> None:
    """Half goes with the work and half is each pod's own: neither kind explains it."""
    found = told(lambda ready, work: 250 + work * 0.5 / ready, target)
    assert found.kind == kind
    assert ("whether pods share their memory" in found.problem) == (not kind)
    assert found.question is not None
    assert "divisible if pods share it" in found.question.evidence
