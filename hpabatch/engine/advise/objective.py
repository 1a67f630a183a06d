"""Goal of a recommendation: limits that must hold (`--slo`), and the measure to minimize.

An SLO is `MEASURE<LIMIT/UNIT`: `saturated_minutes<10/week`, `rescales<=4/hour`,
`saturated_minutes<1%` (of the time, minutes only), or a bare `<=0`, which needs no unit. Measures
are the columns of a sweep's blocks.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, fields
from typing import Final

import numpy as np
import polars as pl
from numpy.typing import NDArray

from hpabatch.engine.advise.bounds import Bounds, parse_bounds
from hpabatch.engine.advise.request import DEFAULT_SLO, JudgeRules, RecommendRequest
from hpabatch.engine.columns.recorded import ABOVE_MINUTES
from hpabatch.engine.sweep.result import SweepResult
from hpabatch.errors import UsageError
from hpabatch.model.plant import CEILINGS_PCT
from hpabatch.model.suggestions import did_you_mean

MEASURES: Final[dict[str, str]] = {
    "replica_hours": "the target's size over time",
    "pod_hours": "pods that are scheduled and there, over time",
    "core_hours": "requested cores of these",
    "gib_hours": "requested GiB of memory of these",
    "cost": "what the requested hours cost",
    "saturated_minutes": "minutes in which a pod was at a ceiling",
    **{
        name: f"minutes in which a pod was above {pct} % of the highest usage seen, where no "
        "ceiling is known"
        for pct, name in zip(CEILINGS_PCT, ABOVE_MINUTES, strict=True)
    },
    "unserved": "work that was cut off",
    "waiting": "work that waited for its turn",
    "short_pod_hours": "pods that were missing, over time",
    "perfect_pod_hours": "the fewest pod-hours that would have met the work",
    "under_minutes": "minutes with fewer serving pods than the work asks for",
    "over_minutes": "minutes with more",
    "unstable_minutes": "minutes in which pods and work did not change in the same direction",
    "rescales": "changes of size",
    "rescales_up": "of these, up",
    "rescales_down": "of these, down",
    "reversals": "of these, against the direction of the last one",
    "at_max_minutes": "minutes at maxReplicas while the metrics asked for more",
    "invalid_minutes": "minutes with a failed metric",
    "outside_minutes": "minutes in which a pod used more or less than was ever recorded",
}
"""Everything of a block that can be added up, and what it says."""

NO_SLO: Final = "none"
SATURATED: Final = "saturated_minutes"
UNIT_HOURS: Final = {"hour": 1.0, "day": 24.0, "week": 168.0}
MINUTES_AN_HOUR: Final = 60.0
_FIXED: Final = frozenset({"perfect_pod_hours"})  # of the work, the same under every setting

_SLO = re.compile(
    r"\s*(?P<measure>[A-Za-z_][\w.]*)\s*(?P<sign><=|<|=<|≤|>=?|==?)\s*"
    r"(?P<limit>[-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?)\s*(?P<unit>%|/\s*\w+)?\s*"
)
_BETWEEN = re.compile(r"\s*,\s*|\s+and\s+", re.IGNORECASE)


def short_number(value: float) -> str:
    """Return a number for sentences: three digits, whole ones in full."""
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"


def saving_told(ends: Sequence[float], measure: str, *, is_lower_bound: bool = False) -> str:
    """Return a saving in percent, or its interval: `17.5 to 17.7% less cost`, `at least 9.1% more`.

    `measure` may be left out. `is_lower_bound`: the work is, so what costs more may cost even more.
    """
    low, high = min(ends), max(ends)
    of = f" {measure.replace('_', '-')}".rstrip()
    if low < 0 < high:
        return f"{-low:.1f}% more to {high:.1f}% less{of}"
    shown = dict.fromkeys(f"{abs(end):.1f}" for end in sorted((low, high), key=abs))
    least = "at least " if low < 0 and is_lower_bound else ""
    return f"{least}{' to '.join(shown)}% {'more' if low < 0 else 'less'}{of}"


def unit_noun(measure: str) -> str:
    """Return what a measure is counted in: `minutes`, `pod-hours`; "" for money."""
    words = measure.removesuffix("_up").removesuffix("_down").replace("gib", "GiB").split("_")
    if words[-1] == "hours":
        return "-".join(words[-2:])
    if measure in ("unserved", "waiting"):
        return "units x seconds"
    return "" if measure == "cost" else words[-1]


class ObjectiveError(UsageError):
    """Limits or an objective that make no sense; the message lists all mistakes."""


@dataclass(frozen=True, slots=True)
class Slo:
    """A measure that must stay below a limit (`strict`), or not above it.

    `limit` is for `unit_hours`: of a share, minutes in an hour; a bare 0 counts as for an hour.
    `window_hours` is the time over which it is meant: None where that does not matter.
    """

    text: str
    measure: str
    limit: float
    strict: bool
    unit_hours: float
    window_hours: float | None = None

    @property
    def unit(self) -> str:
        """Return what values of it are in: `/week`, or `%` for a share of time."""
        if self.text.endswith("%"):
            return "%"
        return next((f"/{n}" for n, h in UNIT_HOURS.items() if h == self.window_hours), "/hour")

    def told(self, value: float) -> str:
        """Return a value for `unit_hours` for sentences: `12 minutes a week`, `1% of the time`."""
        shown = short_number(self.shown(value))
        if self.unit == "%":
            return f"{shown}% of the time"
        name = self.unit.removeprefix("/")
        each = f"{'an' if name == 'hour' else 'a'} {name}"
        return " ".join(filter(None, (shown, unit_noun(self.measure), each)))

    def keeps(self, values: NDArray[np.float64], margin: float = 0.0) -> NDArray[np.bool_]:
        """Return whether values for `unit_hours` keep to the limit, a share of it left free."""
        limit = self.limit * (1.0 - margin)
        kept: NDArray[np.bool_] = values < limit if self.strict else values <= limit
        return kept

    def shown(self, value: float) -> float:
        """Return a value for `unit_hours` in the unit of the text."""
        return value / MINUTES_AN_HOUR * 100.0 if self.unit == "%" else value


@dataclass(frozen=True, slots=True)
class Goal:
    """The SLOs that must hold, and the measure that is to be least.

    `source` says why it is that measure: given, or what there was instead.
    """

    minimize: str
    slos: tuple[Slo, ...]
    source: str = "given"

    def __str__(self) -> str:
        """Return the goal in words."""
        slos = " and ".join(slo.text for slo in self.slos)
        return f"least {self.minimize}" + (f" with {slos}" if slos else "")


def parse_goal(
    slos: Sequence[str], minimize: str | None = None, blocks: pl.DataFrame | None = None
) -> Goal:
    """Return the goal that texts say; `blocks` are those of the sweep that it is for.

    Without `minimize` it is cost, where the sweep has prices, else pod_hours. A single `none` is no
    limit.

    Raises:
        ObjectiveError: all mistakes in one message.
    """
    mistakes: list[str] = []
    parsed: list[Slo] = []
    stated = () if tuple(slos) == (NO_SLO,) else slos
    for text in (part for given in stated for part in _BETWEEN.split(given) if part):
        found = _parse_slo(text)
        if isinstance(found, Slo):
            parsed.append(found)
        else:
            mistakes += [f"--slo {text.strip()}: {mistake}" for mistake in found]
    measures = [slo.measure for slo in parsed]
    for name in sorted({name for name in measures if measures.count(name) > 1}):
        mistakes.append(f"--slo: {name} has two limits: give the tighter one")
    known = set(MEASURES) if blocks is None else _measured(blocks)
    mistakes += [
        f"--slo {slo.text}: {slo.measure} is not known of any HPA of this sweep"
        for slo in parsed
        if slo.measure not in known
    ]
    goal_text, source = _objective(minimize, known)
    mistakes += [] if minimize is None else _objective_mistakes(minimize, known)
    if mistakes:
        raise ObjectiveError("; ".join(mistakes))
    return Goal(goal_text, tuple(parsed), source)


def _parse_slo(text: str) -> Slo | list[str]:
    found = _SLO.fullmatch(text)
    if found is None:
        return [
            "expected MEASURE<LIMIT/UNIT, such as saturated_minutes<10/week or rescales<=40/day"
        ]
    measure, sign, unit = found["measure"], found["sign"], (found["unit"] or "").replace(" ", "")
    limit = float(found["limit"])
    strict = sign == "<"
    mistakes = list(_measure_mistakes(measure))
    if sign not in ("<", "<=", "=<", "≤"):
        mistakes.append(f"`{sign}` says no upper limit: use < or <=")
    elif math.isinf(limit):
        mistakes.append("everything is below that: give a smaller limit, or leave it")
    elif limit < 0 or (strict and limit == 0):
        mistakes.append(
            f"nothing is below {limit:g}: give a larger limit" + (", or <=0" if not limit else "")
        )
    if unit == "%" and not measure.endswith("_minutes"):
        mistakes.append("only minutes have a share of time (%): give it /hour, /day or /week")
    elif not unit and limit:
        mistakes.append(
            "per what? give it /hour, /day or /week"
            + (", or %" if measure.endswith("_minutes") else "")
        )
    elif unit.startswith("/") and unit[1:] not in UNIT_HOURS:
        mistakes.append(f"{unit} is none of /hour, /day, /week")
    if mistakes:
        return mistakes
    short = "".join(text.split())
    if unit == "%":
        return Slo(short, measure, limit / 100.0 * MINUTES_AN_HOUR, strict, 1.0)
    hours = UNIT_HOURS.get(unit[1:])
    return Slo(short, measure, limit, strict, hours or 1.0, hours)


def _measure_mistakes(name: str) -> Iterator[str]:
    if name in MEASURES:
        return
    hint = did_you_mean(name, MEASURES)
    yield f"{name} is no measure of a block{hint} (measures: {', '.join(MEASURES)})"


def _measured(blocks: pl.DataFrame) -> set[str]:
    names = [name for name in MEASURES if name in blocks.columns]
    found = {name for name in names if blocks[name].null_count() < blocks.height}
    # Without a known ceiling it is judged over the range of assumed ones.
    return found | {SATURATED} if ABOVE_MINUTES[0] in found else found


def _objective(minimize: str | None, known: set[str]) -> tuple[str, str]:
    if minimize is not None:
        return minimize.strip(), "given"
    if "cost" in known:
        return "cost", "default"
    return "pod_hours", "default, as no HPA has a cost"


NO_COST: Final = (
    "--minimize cost: no HPA has a cost: with --prices FILE one has where all requests that have a "
    "price are recorded; give them, or minimize pod_hours, core_hours or gib_hours"
)


def _objective_mistakes(minimize: str, known: set[str]) -> Iterator[str]:
    name = minimize.strip()
    yield from (f"--minimize {name}: {mistake}" for mistake in _measure_mistakes(name))
    if name in _FIXED:
        yield f"--minimize {name}: it is the same under every setting; minimize pod_hours"
    elif name == "cost" and name not in known:
        yield NO_COST
    elif name in MEASURES and name not in known:
        yield f"--minimize {name}: it is not known of any HPA of this sweep"


_DAY_MS: Final = 86_400_000


@dataclass(frozen=True, slots=True)
class RecommendOptions:
    """What is asked for.

    Changes of confidence `accept` or better are written. `sweep` is a digest of the sweep's files
    and `objects` one of the cluster's objects, for the certificates.
    """

    goal: Goal
    rules: JudgeRules = field(default_factory=JudgeRules)
    bounds: Bounds = field(default_factory=lambda: parse_bounds(()))
    min_history_days: float = RecommendRequest.min_history_ms / _DAY_MS
    accept: str = RecommendRequest.accept
    sweep: str = ""
    objects: str = ""
    instance_label: str = RecommendRequest.instance_label


def options_of(request: RecommendRequest, result: SweepResult, sweep: str = "") -> RecommendOptions:
    """Return what a request means for a sweep; `sweep` is a digest of its files.

    Raises:
        UsageError: a limit, a measure or a bound that there is not.
    """
    try:
        goal = parse_goal(request.slo, request.minimize, result.blocks)
    except ObjectiveError as error:
        if request.slo != DEFAULT_SLO or "--slo " not in str(error):
            raise
        raise UsageError(
            f"{error} (--slo {DEFAULT_SLO[0]} is the default): name a limit of your own, such as "
            "--slo 'short_pod_hours<10/week' or --slo 'rescales<40/day', or --slo none"
        ) from None
    return RecommendOptions(
        goal=goal,
        rules=JudgeRules(**{f.name: getattr(request, f.name) for f in fields(JudgeRules)}),
        bounds=parse_bounds(request.bound),
        min_history_days=request.min_history_ms / _DAY_MS,
        accept=request.accept,
        sweep=sweep,
        instance_label=request.instance_label,
    )
