"""Parts of an explanation: the numbers of one decision, in the order of the rules.

Sizes are replicas, quantities milli-units, times ms since 1970 in UTC; a null is a number that this
decision did not need. Sentences about them are made in `report.explain.steps`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from hpabatch.model.messages import Event
from hpabatch.model.objects.hpa import Condition

READY = "ready"
UNREADY = "unready"
MISSING = "missing"
IGNORED = "ignored"
STRAY = "stray"

# Why a target at zero stays there.
MIN_NOT_ZERO = "min_not_zero"
GATE_OFF = "gate_off"
NOT_BY_HPA = "not_by_hpa"
NO_SIGNAL = "no_signal"


@dataclass(frozen=True, slots=True)
class PodFact:
    """A pod in one metric's eyes: its group and why, and what the rules looked at.

    `group` ready, unready, missing, ignored, or stray: a sample whose pod the controller's cache
    does not hold. `why` names the test that put it there, "" for a ready one. `owner` is whose pod
    it is, "" for one of the target.
    """

    pod: str
    group: str
    why: str
    phase: str = ""
    ready: str | None = None
    deleting: bool = False
    started_ms: int | None = None
    transition_ms: int | None = None
    value_milli: int | None = None
    sample_ms: int | None = None
    window_ms: int | None = None
    request_milli: int | None = None
    owner: str = ""


@dataclass(frozen=True, slots=True)
class Counts:
    """Numbers of a metric's pods in each group."""

    ready: int
    unready: int
    missing: int
    ignored: int
    stray: int


@dataclass(frozen=True, slots=True)
class Ratio:
    """Usage relative to the target: of utilization the truncated percent, else the average.

    `usage_milli` and `request_milli` are sums over `pods`, or over the replicas of the status; the
    average is the one that the status shows (a second ratio has none with utilization).
    """

    usage_milli: int
    request_milli: int | None
    pods: int
    utilization_pct: int | None
    average_milli: int | None
    ratio: float


@dataclass(frozen=True, slots=True)
class Tolerance:
    """The test whether a ratio is close enough to 1: low <= ratio <= high.

    Old versions: |1 - ratio| = deviation <= most instead.
    """

    ratio: float
    low: float
    high: float
    deviation: float | None
    most: float | None
    within: bool


@dataclass(frozen=True, slots=True)
class Substitution:
    """Assumed usage of pods without a usable sample, by the direction of the first ratio.

    `missing` of them are counted, together charged `missing_milli`; `unready` counted at zero.
    """

    missing: int
    missing_milli: int
    unready: int


@dataclass(frozen=True, slots=True)
class Failure:
    """Failure of a metric, in upstream's words: its event and the sync's error."""

    cause: str
    reason: str
    event: str
    error: str


@dataclass(frozen=True, slots=True)
class MetricFact:
    """One metric's way to its proposal, or to its failure.

    `values_milli` are the samples of an Object or External metric, `total_milli` their total;
    `multiplier` is what the last ratio is multiplied by (pods, or null: none), `wanted` the result
    rounded up, before the guards; `step` which rule ended it.
    """

    number: int
    type: str
    subject: str
    name: str
    target: str
    target_milli: int | None
    target_pct: int | None
    is_memory: bool
    pods: tuple[PodFact, ...] = ()
    counts: Counts | None = None
    values_milli: tuple[int, ...] = ()
    total_milli: int | None = None
    status_replicas: int | None = None
    first: Ratio | None = None
    substitution: Substitution | None = None
    second: Ratio | None = None
    tolerance: Tolerance | None = None
    multiplier: int | None = None
    wanted: int | None = None
    step: str = ""
    proposal: int | None = None
    failure: Failure | None = None

    @property
    def last(self) -> Ratio | None:
        """The ratio that the proposal comes from."""
        return self.second or self.first


@dataclass(frozen=True, slots=True)
class Combination:
    """Combination of the metrics' proposals.

    `largest` is the largest valid one, `winner` its metric's number; `usable` False: nothing is
    done in this sync, since all failed, or some did and the others would shrink the target.
    """

    count: int
    failed: int
    largest: int
    winner: int | None
    usable: bool
    error: str | None


@dataclass(frozen=True, slots=True)
class Recommendation:
    """A proposal that the controller remembers; which windows it counts in at this sync."""

    at_ms: int
    replicas: int
    in_up_window: bool
    in_down_window: bool


@dataclass(frozen=True, slots=True)
class Windows:
    """Stabilization: the smallest wish of the up window, the largest of the down window.

    Without behavior there is no up window and no lowest wish. The recommendations are those from
    before this sync, oldest first; this sync's proposal counts in both windows. Old versions look
    at the window of the proposal's own direction alone (not `clamps_current`).
    """

    has_behavior: bool
    clamps_current: bool
    up_window_ms: int | None
    down_window_ms: int
    up_since_ms: int | None
    down_since_ms: int
    recommendations: tuple[Recommendation, ...]
    lowest: int | None
    highest: int
    stabilized: int
    condition: str


@dataclass(frozen=True, slots=True)
class ScaleEvent:
    """A size change that spends a policy's budget; pods that were removed count below zero."""

    at_ms: int
    change: int


@dataclass(frozen=True, slots=True)
class PolicyFact:
    """One scaling policy: the size at its period's start and how far it lets the target go."""

    type: str
    value: int
    period_ms: int
    events: tuple[ScaleEvent, ...]
    added: int
    removed: int
    start: int
    limit: int


@dataclass(frozen=True, slots=True)
class Limits:
    """The last bounds: policies (or, without behavior, at most double) and minimum and maximum.

    `direction` up, down or none; `limit` is what the policies, or doubling, allow, `bound` what it
    comes to with minReplicas or maxReplicas.
    """

    has_behavior: bool
    direction: str
    select: str | None
    policies: tuple[PolicyFact, ...]
    limit: int | None
    bound: int | None
    limited: int
    condition: str


@dataclass(frozen=True, slots=True)
class ScaleFact:
    """The target's scale as it was recorded; null: not known.

    `since_ms` is when it was first seen so, `next_ms` and `next_replicas` its next recorded change,
    at the sync itself or later. `next_foreign`: it comes before the next sync, and no rule made it.
    """

    kind: str
    name: str
    replicas: int | None
    status_replicas: int | None
    selector: str | None
    since_ms: int | None
    next_ms: int | None
    next_replicas: int | None
    next_foreign: bool = False


@dataclass(frozen=True, slots=True)
class Start:
    """State of the controller's memory when the sync began.

    `restarted_ms` is when a fresh one had started since the last sync; `unknown_time`: it had at
    no known time. `first_seen`: the size is its first recommendation.
    """

    restarted_ms: int | None
    unknown_time: bool
    first_seen: bool


@dataclass(frozen=True, slots=True)
class ConditionFact:
    """A condition after the sync; `is_set` says whether this sync set it."""

    condition: Condition
    is_set: bool


@dataclass(frozen=True, slots=True)
class DecisionFact:
    """Decision of the sync; `binding` names the rule that determined the size."""

    current: int
    proposal: int
    stabilized: int
    limited: int
    desired: int
    rescaled: bool
    reason: str
    binding: str
    sentence: str


@dataclass(frozen=True, slots=True)
class Outcome:
    """Results of the sync besides the size: status, events, its error."""

    conditions: tuple[ConditionFact, ...]
    events: tuple[Event, ...]
    error: str | None
    written: bool
    stored_change: int | None


@dataclass(frozen=True, slots=True)
class Explanation:
    """One decision with everything that it came from.

    `path` is what decided: metrics, forced, zero, selector, scale or none. `from_zero`: the
    metrics decided for a target at zero, else `zero_reason` why they did not; `raised_to`:
    minReplicas, where that raised their answer.
    `warnings` tell of versions without a profile of their own, and of those that changed.
    """

    cluster: str
    namespace: str
    hpa: str
    asked_ms: int | None
    sync_ms: int
    k8s: str
    min_replicas: int
    max_replicas: int
    has_behavior: bool
    path: str
    from_zero: bool
    zero_reason: str
    scale: ScaleFact
    scale_error: str
    selector_error: str
    start: Start
    metrics: tuple[MetricFact, ...]
    combination: Combination | None
    windows: Windows | None
    limits: Limits | None
    raised_to: int | None
    decision: DecisionFact
    outcome: Outcome
    assumed: Mapping[str, str]
    warnings: tuple[str, ...] = ()
