"""Rules as machine code for tests: called from Python they are plain Python."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar, cast

from hpabatch._jit import INTERPRETED, Compiled, rule
from hpabatch.kernels import replay, status
from hpabatch.layout.records import I64, Fleet
from hpabatch.layout.results import Results
from hpabatch.rules import numbers
from hpabatch.rules.combine import propose, tolerance_of, write_proposal
from hpabatch.rules.controller import controller_of

F = TypeVar("F", bound=Callable[..., Any])


def compiled(function: F) -> F:
    """Return a rule as machine code, or the rule itself where nothing is compiled."""
    return function if INTERPRETED else cast("F", Compiled(function))


replay_lane = compiled(replay.replay_lane)
status_lane = compiled(status.status_lane)


@rule
def propose_alone(fleet: Fleet, current: int, results: Results) -> None:
    """Write what the only metric of the only lane proposes at its first tick."""
    controller = controller_of(fleet, 0)
    tolerance = tolerance_of(controller, fleet.specs[0])
    write_proposal(
        results.metrics, 0, propose(fleet, controller, 0, 0, current, tolerance, results)
    )


@rule
def numbers_of(a: int, b: int, value: float, out: I64) -> None:
    """Write what each function of `rules.numbers` makes of two integers and a float."""
    out[0] = numbers.add64(a, b)
    out[1] = numbers.sub64(a, b)
    out[2] = numbers.mul64(a, b)
    out[3] = numbers.div64(a, b) if b != 0 else 0
    out[4] = numbers.to_int32(a)
    out[5] = numbers.float_to_int32(value)
    out[6] = numbers.float_to_int64(value)
    out[7] = numbers.ceil_to_int32(value)
    out[8] = numbers.ceil_to_int64(value)
    out[9] = numbers.float_to_int64(numbers.divide(value, float(b)) * 1000.0)
