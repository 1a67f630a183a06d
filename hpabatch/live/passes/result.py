"""Result of one pass: arrays by lane, and the HPAs that passes leave out after an error.

A lane is an HPA, in one order for all columns of a pass; another pass may have another order. An
HPA is left out so that all others are decided.
"""

from __future__ import annotations

import traceback
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from hpabatch.layout import codes
from hpabatch.layout.records import I8, I64, Records
from hpabatch.model.messages import Event
from hpabatch.model.objects.hpa import HPA
from hpabatch.model.versions import Profile

Key = tuple[str, str]

_PAUSE: Final = 8
"""Passes that an HPA is left out after an error (about two minutes)."""
_MOST_TRIALS: Final = 200
"""Of one search: where many HPAs fail, the error is not one of their data."""


class LeftOut:
    """HPAs that are left out for some passes."""

    def __init__(self) -> None:
        self._pass = 0
        self._until: dict[Key, tuple[int, str]] = {}  # number of a pass, and why

    @property
    def texts(self) -> dict[Key, str]:
        """The HPAs that are left out now, and why."""
        return {key: text for key, (until, text) in self._until.items() if self._pass < until}

    def begin(self) -> set[Key]:
        """Begin a pass; return the HPAs that are tried again in it."""
        self._pass += 1
        again = {key for key, (until, _) in self._until.items() if self._pass >= until}
        for key in again:
            del self._until[key]
        return again

    def add(self, key: Key, error: Exception) -> None:
        """Leave an HPA out of this pass and the next ones."""
        text = f"left out, and tried again within minutes: {error_text(error)}"
        self._until.setdefault(key, (self._pass + _PAUSE, text))

    def forget(self, key: Key) -> None:
        """Forget an HPA that was deleted."""
        self._until.pop(key, None)


def error_text(error: Exception) -> str:
    """Return an unexpected error and its place in one line."""
    at = traceback.extract_tb(error.__traceback__)[-1]
    return f"{type(error).__name__}: {error} ({Path(at.filename).name}:{at.lineno})"


def culprits(
    suspects: Sequence[Key], failure: Callable[[Sequence[Key]], Exception | None]
) -> dict[Key, Exception]:
    """Return the HPAs that fail by themselves, with their errors; found by halves.

    Args:
        failure: of a pass over some HPAs alone; None: it does not fail.
    """
    found: dict[Key, Exception] = {}
    waiting, trials = [list(suspects)], 0
    while waiting and trials < _MOST_TRIALS:
        part, trials = waiting.pop(), trials + 1
        error = failure(part) if part else None
        if error is None:
            continue
        if len(part) == 1:
            found[part[0]] = error
        else:
            half = len(part) // 2
            waiting += [part[half:], part[:half]]
    return found


NO_STATUS: Final = -1
"""In `theirs_desired`: the HPA's status was never written."""

ACTION_NONE: Final = 0
ACTION_UP: Final = 1
ACTION_DOWN: Final = 2
ACTIONS: Final = ("none", "scale_up", "scale_down")

ERROR_NONE: Final = 0
ERROR_SPEC: Final = 1
ERROR_INTERNAL: Final = 2
ERRORS: Final = ("none", "spec", "internal")

SIZE_WRITTEN: Final = "written"
SIZE_ACCEPTED: Final = "accepted"
SIZE_HELD: Final = "held"
SIZE_WAITS: Final = "waits"
SIZE_FAILED: Final = "failed"
SIZE_VOID: Final = "void"


class Size(NamedTuple):
    """A decided size, and its outcome.

    Attributes:
        outcome: SIZE_WRITTEN. SIZE_ACCEPTED: by a server that stores nothing (dry run). SIZE_HELD:
            this process may not write it. SIZE_WAITS: a limit or rule of the pass forbids it.
            SIZE_FAILED: the server refused it. SIZE_VOID: the target has changed meanwhile.
        why: the reason of the decision that was made first. A write that fails is followed by
            another decision, whose reason is the failure.
        text: why it is not written, or is only a part of what was decided; "" if neither.
    """

    before: int
    after: int
    outcome: str
    why: str = ""
    text: str = ""

    def is_same(self, other: Size | None) -> bool:
        """Return whether sizes and outcomes are equal, whatever the reasons."""
        return other is not None and self[:3] == other[:3]


class Problem(NamedTuple):
    """An HPA that could not be decided, with the reason."""

    namespace: str
    name: str
    text: str


@dataclass(frozen=True, slots=True)
class MetricColumns:
    """Results of the metrics of all lanes; lane h has the rows start[h]:start[h + 1].

    Attributes:
        start: (H + 1,).
        source: (M,) SOURCE_*.
        code: (M,) METRIC_*; METRIC_NOT_COMPUTED where the pass did not compute it.
        proposal: (M,) its own proposal; undefined where its code is not METRIC_OK.
    """

    start: I64
    source: I8
    code: I8
    proposal: I64

    def lanes(self) -> I64:
        """Return the lane of each row."""
        return np.repeat(np.arange(len(self.start) - 1), np.diff(self.start))


def _no_events(h: int) -> Sequence[Event]:
    return ()


@dataclass(frozen=True, slots=True)
class PassResult:
    """One pass: every HPA known then, decided at one instant.

    Attributes:
        now_ms: the instant of the pass (UTC).
        targets: `Kind/name` of the lanes' targets.
        decisions: (H,) DECISION.
        spec_replicas: (H,) the target's size as its scale said; 0 where that was not readable.
        theirs_desired: (H,) status.desiredReplicas as the cluster's own controller last wrote it,
            NO_STATUS where none did.
        current_before: (H,) status.currentReplicas as it was before this pass, which upstream
            compares a metric's proposal with for its own metrics.
        action: (H,) ACTION_*.  error: (H,) ERROR_*.
        why: returns the reason of a lane's decision in one sentence.
        document: returns a lane's HPA with hpabatch's status, as kubectl would get it.
        events: returns the events of a lane, in the controller's words.
        duration_s: of the whole pass; `phases` by name.
        requests: to the API server for this pass.
        problems: HPAs that are not lanes, because they could not be decided.
        start: the first pass of a loop with empty controller memory.
        sizes: with --apply the decided sizes by lane, with their outcomes.
    """

    now_ms: int
    namespaces: Sequence[str]
    names: Sequence[str]
    uids: Sequence[str]
    targets: Sequence[str]
    decisions: Records
    spec_replicas: I64
    theirs_desired: I64
    current_before: I64
    action: I8
    error: I8
    metrics: MetricColumns
    why: Callable[[int], str]
    document: Callable[[int], HPA]
    events: Callable[[int], Sequence[Event]] = _no_events
    duration_s: float = 0.0
    phases: Mapping[str, float] = field(default_factory=dict)
    requests: int = 0
    problems: Sequence[Problem] = ()
    start: bool = False
    sizes: Mapping[int, Size] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.names)

    @property
    def ours_desired(self) -> I64:
        """(H,) the decided status.desiredReplicas."""
        return np.asarray(self.decisions.desired, np.int64)

    @property
    def decided(self) -> NDArray[np.bool_]:
        """(H,) whether there is a decision: not while the scale was never seen."""
        return np.asarray(self.decisions.binding != codes.BOUND_BY_NO_SCALE)

    def binding(self, h: int) -> str:
        """Return the name of the rule that bound lane h's decision."""
        return codes.BINDINGS[int(self.decisions.binding[h])].name


def reconcile_actions(decisions: Records) -> I8:
    """Return (H,) ACTION_*, as upstream labels a reconciliation: only a written scale is one."""
    up = decisions.desired > decisions.current
    action = np.where(up, ACTION_UP, ACTION_DOWN)
    return np.where(decisions.rescaled != 0, action, ACTION_NONE).astype(np.int8)


def metric_actions(result: PassResult) -> I8:
    """Return (M,) ACTION_*, as upstream labels the computation of a metric."""
    rows, before = result.metrics, result.current_before[result.metrics.lanes()]
    action = np.where(rows.proposal > before, ACTION_UP, ACTION_NONE)
    action = np.where(rows.proposal < before, ACTION_DOWN, action)
    return np.where(rows.code == codes.METRIC_OK, action, ACTION_NONE).astype(np.int8)


def metric_errors(result: PassResult, profile: Profile) -> I8:
    """Return (M,) ERROR_*, as upstream labels the computation of a metric."""
    code = result.metrics.code
    fine = (code == codes.METRIC_OK) | (code == codes.METRIC_NOT_COMPUTED)
    error = np.where(fine, ERROR_NONE, ERROR_INTERNAL)
    if profile.unknown_type_is_spec_error:
        error[code == codes.METRIC_UNKNOWN_TYPE] = ERROR_SPEC
    return error.astype(np.int8)
