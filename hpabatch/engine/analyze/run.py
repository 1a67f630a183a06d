"""Static analysis of an HPA from its spec alone: dead bands, resting sizes, cycles, ramps.

Every number comes from the rules. Assumptions: all pods are ready and alike, none is at
its ceiling, samples are up to date. The work behind a pod metric is a constant total that divides
among the pods; the value of an Object or External metric is constant and does not depend on the
number of pods. Whether pods share their memory is not assumed: a stated base says that they do.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Final

from hpabatch.engine.analyze.loop import STUCK, Ramp, Settled, follow_ramp, moves_of, settle
from hpabatch.engine.analyze.map import Band, Cycle, Piece, cycles, dead_band, pieces
from hpabatch.engine.analyze.meter import Meter, Moves, Ruled, read_spec
from hpabatch.engine.analyze.request import ONLY_METRIC
from hpabatch.engine.analyze.smallest import Smallest, smallest_changes
from hpabatch.layout import codes
from hpabatch.model.objects.hpa import HPASpec, MetricSpec
from hpabatch.model.plant import signal_name
from hpabatch.model.versions import DEFAULT_K8S, PROFILES, ControllerFlags, Profile

MOST_SIZES: Final = 1000  # up to so many sizes all are looked at, of more a part
MOST_TIMED: Final = 20  # cycles of a metric that are also run with windows and policies

DEFAULT_REQUESTS: Final[Mapping[str, int]] = {"cpu": 1000, "memory": 2**30 * 1000}
"""Requests of a pod in milli, by resource, where none is given; of other resources 1000."""

_FLAGS: Final = ControllerFlags()
_PROFILE: Final = PROFILES[DEFAULT_K8S]


@dataclass(frozen=True, slots=True)
class Assumed:
    """Assumptions about pods, which a manifest does not state.

    `request_milli` by resource (DEFAULT_REQUESTS where absent); `base_pct`: what a pod uses without
    any work, in percent of the request or, where the target is an amount, of the target: by signal
    or the name of the resource or metric, or ONLY_METRIC of HPAs with a single one.
    """

    request_milli: Mapping[str, int] = field(default_factory=dict)
    base_pct: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class TimedCycle:
    """A cycle of the metric, and its run under the HPA's own windows and policies.

    `settled` (None: not run) is for the least demand of the cycle, from its first member on.
    """

    cycle: Cycle
    settled: Settled | None


@dataclass(frozen=True, slots=True)
class MetricAnalysis:
    """One metric alone: what the HPA does where the others ask for less.

    `signal` is `model.plant.signal_name`; the target is `target_pct` for utilization, else
    `target_milli`. `bands` are by ascending size. `pieces` cover all demands from 0 on; they are
    empty where not all sizes were looked at (`complete` False). `error` says why there is nothing;
    then `smallest` is None. `divides`: whether the demand is divided among the pods; None: it is
    not known, so there are no pieces and cycles.
    """

    signal: str
    kind: int
    target_pct: int | None
    target_milli: int | None
    request_milli: int | None
    base_milli: int
    per_pod: bool
    divides: bool | None
    complete: bool
    bands: tuple[Band, ...]
    pieces: tuple[Piece, ...]
    cycles: tuple[TimedCycle, ...]
    error: str = ""
    smallest: Smallest | None = None

    def band(self, size: int) -> Band | None:
        """Return the dead band at a size, if it was looked at."""
        return next((band for band in self.bands if band.size == size), None)


@dataclass(frozen=True, slots=True)
class Analysis:
    """Everything about one HPA; `middle` stands for its usual size (geometric mean of the bounds).

    `up` and `down` are the fastest ways from bound to bound, None where there is only one size.
    `down_disabled` is the spec's word; `moves` knows also that with a metric that can never be
    computed nothing shrinks.
    """

    lowest: int
    highest: int
    middle: int
    has_behavior: bool
    sync_ms: int
    down_tolerance: float
    up_tolerance: float
    moves: Moves
    down_disabled: bool
    metrics: tuple[MetricAnalysis, ...]
    up: Ramp | None
    down: Ramp | None


def analyze_hpa(
    spec: HPASpec,
    flags: ControllerFlags = _FLAGS,
    profile: Profile = _PROFILE,
    assumed: Assumed | None = None,
    at_size: int | None = None,
) -> Analysis:
    """Return what a spec (valid, with its defaults filled in) amounts to.

    `at_size` is the size whose smallest changes are looked at; None: the one in the middle.

    Raises nothing for a valid spec; a metric that can never be computed says so in its `error`.
    """
    ruled = read_spec(spec, flags, profile)
    errors = [bool(metric.error) for metric in ruled.metrics]
    moves = moves_of(ruled, computable=not any(errors))
    lowest, highest = ruled.lowest, ruled.highest
    middle = min(max(round(math.sqrt(max(lowest, 1) * highest)), lowest), highest)
    at_size = middle if at_size is None else at_size
    return Analysis(
        lowest=lowest,
        highest=highest,
        middle=middle,
        has_behavior=spec.behavior is not None,
        sync_ms=flags.sync_period_ms,
        down_tolerance=ruled.tolerance.down,
        up_tolerance=ruled.tolerance.up,
        moves=moves,
        down_disabled=ruled.down_disabled,
        metrics=tuple(
            _analyze_metric(ruled, moves, metric, assumed or Assumed(), at_size)
            for metric in ruled.metrics
        ),
        up=_ramp(ruled, lowest, highest, blocked=all(errors)),
        down=_ramp(ruled, highest, lowest, blocked=any(errors)),
    )


def _ramp(ruled: Ruled, first_size: int, last_size: int, *, blocked: bool) -> Ramp | None:
    """Return the way between two sizes; `blocked`: a broken metric keeps it from moving."""
    if first_size == last_size:
        return None
    if blocked:
        return Ramp(first_size, last_size, (), STUCK)
    return follow_ramp(ruled, first_size, last_size)


def _analyze_metric(
    ruled: Ruled, moves: Moves, metric: Meter, assumed: Assumed, at_size: int
) -> MetricAnalysis:
    member = metric.metric.resource or metric.metric.container_resource
    resource = "" if member is None else member.name
    share = _base_pct(metric.metric, assumed.base_pct)
    request_milli = assumed.request_milli.get(resource, DEFAULT_REQUESTS.get(resource, 1000))
    whole = max(metric.target_milli, 0)
    if metric.kind == codes.RESOURCE_UTILIZATION:
        whole = request_milli
    base_milli = whole * (share or 0) // 100
    meter = replace(metric, request_milli=request_milli, base_milli=base_milli)
    utilization = metric.kind == codes.RESOURCE_UTILIZATION
    sizes = [] if metric.error else list(_sizes(meter, ruled))
    complete = len(sizes) == ruled.highest - ruled.lowest + 1
    if sizes and at_size < sizes[-1]:
        sizes = sorted({*sizes, at_size})
    bands = [dead_band(meter, moves, size) for size in sizes]
    has_pods = bool(bands) and bands[-1].size > 0
    divides: bool | None = meter.per_pod
    if resource == "memory" and share is None:
        divides = None  # pods may each have this usage of their own: nothing says they share it
    smallest = smallest_changes(ruled, meter, moves, bands, at_size) if has_pods else None
    if smallest is not None and divides is None:
        smallest = replace(smallest, pod_more=None, below_max=None)
    timed = []
    for k, cycle in enumerate(() if divides is None else cycles(meter, moves, bands)):
        settled = None
        if k < MOST_TIMED:  # with the HPA's own windows and policies
            wish_at = partial(meter.wish_for, cycle.low_milli)
            settled = settle(ruled, wish_at, cycle.members[0], running=True)
        timed.append(TimedCycle(cycle, settled))
    return MetricAnalysis(
        signal=signal_name(metric.metric),
        kind=metric.kind,
        target_pct=metric.target_pct if utilization else None,
        target_milli=None if utilization or metric.error else metric.target_milli,
        request_milli=meter.request_milli if utilization else None,
        base_milli=meter.base_milli,
        per_pod=meter.per_pod,
        divides=divides,
        complete=complete,
        bands=tuple(bands),
        pieces=pieces(meter, moves, bands) if complete and divides is not None else (),
        cycles=tuple(timed),
        error=metric.error,
        smallest=smallest,
    )


def _sizes(meter: Meter, ruled: Ruled) -> Iterator[int]:
    """Generate the sizes to look at: all, or the first ones and then ever fewer, and the last.

    Sizes at which the calculator's int64 would overflow near the target are left out.
    """
    highest = min(ruled.highest, meter.largest_size())
    all_of_them = ruled.highest - ruled.lowest < MOST_SIZES
    size = ruled.lowest
    while size < highest:
        yield size
        near = size - ruled.lowest < MOST_SIZES // 2
        size += 1 if all_of_them or near else size // 50 + 1
    if ruled.lowest <= highest:
        yield highest


def _base_pct(metric: MetricSpec, stated: Mapping[str, int]) -> int | None:
    """Return the stated base of a metric, None without."""
    signal = signal_name(metric)
    name = signal.partition("{")[0].rpartition("/")[2]
    return next((stated[key] for key in (signal, name, ONLY_METRIC) if key in stated), None)
