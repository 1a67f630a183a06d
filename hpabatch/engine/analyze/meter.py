"""A spec as the rules read it, and each of its metrics as a function of size and demand.

`Meter` calls the calculator of `rules.replicas` with the statistics of pods that are all ready and
all alike.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final

from hpabatch.layout import codes
from hpabatch.layout.switches import TOTALS_CLAMPED
from hpabatch.model.objects.hpa import HPASpec, MetricSpec
from hpabatch.model.versions import ControllerFlags, Profile
from hpabatch.packing.specs import SpecRows, stream_keys
from hpabatch.rules.numbers import INT32_MAX, INT64_MAX
from hpabatch.rules.replicas import (
    Proposal,
    Tolerance,
    propose_by_pod_average,
    propose_by_total_average,
    propose_by_utilization,
    propose_by_value,
)
from hpabatch.rules.statistics import PodStatistics

TARGET_OVERFLOWS: Final = "the target is no positive number of milli-units once it is an int64"

_PER_POD = (codes.RESOURCE_UTILIZATION, codes.RESOURCE_AVERAGE, codes.PODS_AVERAGE)
VALUES: Final = (codes.OBJECT_VALUE, codes.EXTERNAL_VALUE)


@dataclass(frozen=True, slots=True)
class Meter:
    """One metric as a function of size and demand; all pods are ready and alike.

    Of pod metrics (`per_pod`) the demand is the total work, which divides evenly: each pod uses
    `base_milli + demand // size`, as the plant's divisible signal does. Of Object and External
    metrics it is the value itself. Samples are rounded down to `unit_milli`. All amounts are milli,
    none is negative; `request_milli` (of one pod) matters to utilization only. `kind` is one of
    layout.codes, with the target in its unit; `error` says why it can never be computed.
    """

    metric: MetricSpec
    kind: int
    target_pct: int
    target_milli: int
    tolerance: Tolerance
    switches: int
    error: str = ""
    request_milli: int = 1000
    base_milli: int = 0
    unit_milli: int = 1

    @property
    def per_pod(self) -> bool:
        """Whether the demand is divided among the pods."""
        return self.kind in _PER_POD

    @property
    def by_value(self) -> bool:
        """Whether the target is a plain value, so that the size itself is multiplied."""
        return self.kind in VALUES

    def full_milli(self) -> float:
        """Return the usage of one pod (or the value) that is exactly at the target."""
        if self.kind == codes.RESOURCE_UTILIZATION:
            return self.target_pct * self.request_milli / 100
        return float(self.target_milli)

    def largest(self, size: int) -> int:
        """Return the largest observation (per pod, or the value) at which no integer overflows."""
        if self.kind == codes.RESOURCE_UTILIZATION:
            by_percent = INT32_MAX * self.request_milli // 100
            return min(INT64_MAX // (100 * max(size, 1)), by_percent)
        return INT64_MAX // max(size, 1) if self.per_pod else INT64_MAX

    def largest_size(self) -> int:
        """Return the largest size at which no integer overflows up to twice the target."""
        each = 2 * max(math.ceil(self.full_milli()), 1)
        if self.kind == codes.RESOURCE_UTILIZATION:
            return min(INT64_MAX // (100 * max(each, self.request_milli)), INT32_MAX)
        return min(INT64_MAX // each, INT32_MAX) if self.per_pod else INT32_MAX

    def propose(self, size: int, observed: int) -> Proposal:
        """Return the calculator's answer at a size, for usage per pod or a value."""
        if self.kind == codes.RESOURCE_UTILIZATION:
            pods = _alike(size, observed, self.request_milli)
            return propose_by_utilization(
                pods, self.target_pct, size, self.tolerance, self.switches
            )
        if self.per_pod:
            pods = _alike(size, observed, 0)
            return propose_by_pod_average(
                pods, self.target_milli, size, self.tolerance, self.switches
            )
        if self.by_value:
            clamped = self.switches & TOTALS_CLAMPED != 0
            return propose_by_value(
                observed, self.target_milli, size, size, size, self.tolerance, clamped
            )
        return propose_by_total_average(
            observed,
            self.target_milli,
            size,
            self.kind == codes.EXTERNAL_AVERAGE,
            self.tolerance,
            self.switches,
        )

    def wish(self, size: int, observed: int) -> int | None:
        """Return how many replicas are asked for; None where the metric cannot be computed.

        It never falls as `observed` rises, up to `largest`: a number that does not fit an int32
        (which upstream turns into the smallest one) counts as MaxInt32.
        """
        proposal = self.propose(size, observed)
        if proposal.code != codes.METRIC_OK:
            return None
        return int(proposal.replicas) if proposal.replicas >= 0 else INT32_MAX

    def observe(self, size: int, demand: int) -> int:
        """Return what is measured at a size: usage per pod, or the value."""
        if not self.per_pod:
            return demand - demand % self.unit_milli
        each = self.base_milli + (demand // size if size else 0)
        return each - each % self.unit_milli

    def wish_for(self, demand: int, size: int) -> int | None:
        """Return how many replicas are asked for at a demand and a size; None as of `wish`."""
        return self.wish(size, self.observe(size, demand))

    def demand_for(self, size: int, observed: int) -> int:
        """Return the least demand at which at least `observed` is measured at a size above 0."""
        whole = -(-observed // self.unit_milli) * self.unit_milli
        return max(whole - self.base_milli, 0) * size if self.per_pod else whole


@dataclass(frozen=True, slots=True)
class Ruled:
    """A spec with everything resolved that flags and version decide; periods and windows in ms.

    `window_ms` is the longest stabilization window, `period_ms` the longest policy period.
    """

    spec: HPASpec
    flags: ControllerFlags
    profile: Profile
    lowest: int
    highest: int
    tolerance: Tolerance
    up_disabled: bool
    down_disabled: bool
    window_ms: int
    period_ms: int
    metrics: tuple[Meter, ...]


def read_spec(spec: HPASpec, flags: ControllerFlags, profile: Profile) -> Ruled:
    """Return a spec (defaults filled in) as the rules read it."""
    rows = SpecRows(flags, profile)
    rows.add(spec, 0, stream_keys(spec))
    specs, policies, metrics = rows.tables()
    row = specs[0]
    windows = (row.up_window_ms, row.down_window_ms)
    if not row.has_behavior:
        windows = (0, flags.downscale_stabilization_ms)
    tolerance = Tolerance(
        float(row.down_tolerance), float(row.up_tolerance), profile.tolerance_by_bounds
    )
    return Ruled(
        spec=spec,
        flags=flags,
        profile=profile,
        lowest=int(row.min_replicas),
        highest=int(row.max_replicas),
        tolerance=tolerance,
        up_disabled=bool(row.up_select == codes.SELECT_DISABLED),
        down_disabled=bool(row.down_select == codes.SELECT_DISABLED),
        window_ms=int(max(windows)),
        period_ms=int(policies["period_ms"].max(initial=0)),
        metrics=tuple(
            Meter(
                metric=metric,
                kind=int(packed.kind),
                target_pct=int(packed.target_pct),
                target_milli=int(packed.target_milli),
                tolerance=tolerance,
                switches=profile.switches(),
                error=_error(int(packed.kind), int(packed.error), int(packed.target_milli)),
            )
            for metric, packed in zip(spec.metrics, metrics, strict=True)
        ),
    )


def _error(kind: int, error: int, target_milli: int) -> str:
    """Return why a metric can never be computed; "" if it can."""
    why = codes.METRIC_ERRORS[error]
    if not why and kind != codes.RESOURCE_UTILIZATION and target_milli <= 0:
        why = TARGET_OVERFLOWS
    return why


def _alike(size: int, usage_milli: int, request_milli: int) -> PodStatistics:
    usage, request = size * usage_milli, size * request_milli
    return PodStatistics(size, 0, 0, 0, 0, usage, 0, request, 0, 0, 0, 0)


@dataclass(frozen=True, slots=True)
class Moves:
    """Moves that a spec allows, apart from the delays of its windows and policies."""

    lowest: int
    highest: int
    grows: bool
    shrinks: bool
    leaves_zero: bool

    def next_size(self, size: int, wish: int | None) -> int:
        """Return where a wish leads from a size in one go; None: nothing can be computed."""
        if wish is None:
            return size
        goal = min(max(wish, self.lowest), self.highest)
        if goal > size and not self.grows_from(size):
            return size
        if goal < size and not self.shrinks:
            return size
        return goal

    def grows_from(self, size: int) -> bool:
        """Return whether the target can grow from a size."""
        return self.grows and (size > 0 or self.leaves_zero)
