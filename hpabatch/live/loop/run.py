"""The live loop: each period, fetch metrics, take in changes, decide, write, compare, record.

A late pass is one pass: missed passes are not made up for.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from hpabatch.cluster.apis.discovery import REFRESH_S
from hpabatch.cluster.objects.types import Change, Kind, MetricKey, Response, Responses, response_to
from hpabatch.cluster.watch.site import Site
from hpabatch.errors import HpabatchError
from hpabatch.live.apply.applier import Applier
from hpabatch.live.passes.decide import Decider
from hpabatch.live.passes.lanes import LaneKey
from hpabatch.live.passes.result import error_text
from hpabatch.live.passes.shadow import Comparison, Shadow
from hpabatch.live.record.recorder import FullError, Recorder
from hpabatch.live.serve.exporter import Exporter
from hpabatch.live.serve.log import LineLog, Said, problems_of
from hpabatch.live.serve.server import Health

_MOST_FETCHES = 3  # of one pass: HPAs may appear during a fetch
_WAIT_SAID_S = 10.0
_MOST_FAILED = 5  # consecutive passes: then it is more than temporary data
_FINE_PASSES = 2  # without a problem before it counts as over, so that flapping is not logged


def longest_wait_s(budget_s: float) -> float:
    """Return how long requests may delay a pass, given the budget of one fetch."""
    return REFRESH_S + _MOST_FETCHES * budget_s


@dataclass(slots=True)
class Loop:
    """Decides a cluster again and again. One thread calls it.

    Attributes:
        period_ms: between the beginnings of two passes.
        k8s: the version whose rules are used, for the record.
        state: the file of the controller memory; None: none.
        state_of: cluster and rules that the memory belongs to; a file of others is refused.
        own_hpa: namespace and name of an HPA of hpabatch itself, which is not decided.
        log, exporter, health, recorder: consumers of passes; each may be absent.
        tells_decisions: decisions are logged.
        applier: only with it is anything written to the cluster.
    """

    cluster: Site
    decider: Decider
    shadow: Shadow
    period_ms: int
    k8s: str
    state: Path | None = None
    state_of: str = ""
    own_hpa: LaneKey | None = None
    log: LineLog | None = None
    exporter: Exporter | None = None
    health: Health | None = None
    recorder: Recorder | None = None
    tells_decisions: bool = True
    applier: Applier | None = None
    _said: Said | None = field(init=False)
    _namespaces: set[str] = field(default_factory=set)
    _stop: threading.Event = field(default_factory=threading.Event)

    def __post_init__(self) -> None:
        self._said = Said(self.log) if self.log else None

    def wait_until_listed(self, stop: threading.Event, longest_s: float | None = None) -> str:
        """Wait until every watch has listed once; return what is missing when time is up, or "".

        Args:
            longest_s: seconds to wait; None: no limit, with log lines about what is missing.
        """
        begun = said = time.monotonic()
        while True:
            self.cluster.learn()
            missing = [s.name for s in self.cluster.states() if not s.has_listed]
            if not missing or stop.is_set():
                return ""
            waited = time.monotonic() - begun
            refused = longest_s is not None and self.cluster.is_refused()
            text = f"not yet listed: {', '.join(missing)}"
            if longest_s is not None and (waited >= longest_s or refused):
                return "; ".join([text, *self.cluster.problems().values()])
            if self._said and waited >= _WAIT_SAID_S and time.monotonic() >= said:
                said = time.monotonic() + 1.0
                self._said.only(
                    "cluster", {"watches": text, **self.cluster.problems()}, _FINE_PASSES
                )
            if self.health:
                self.health.began()
            stop.wait(0.05)

    def run(self, stop: threading.Event) -> None:
        """Make a pass every period until `stop` is set.

        A pass whose requests are running then ends without a decision: they may fail only because
        of the stop. A failed pass is logged, and the next one is made: one invalid response must
        not end the loop.

        Raises:
            FullError: the recording cannot go on.
            Exception: the error of the last of several consecutive failed passes.
        """
        period_s = self.period_ms / 1000
        due, failed = time.monotonic(), 0
        self._stop = stop
        while not stop.is_set():
            try:
                self._turn()
            except (BrokenPipeError, FullError):
                raise
            except Exception as error:
                failed += 1
                if failed == _MOST_FAILED:
                    raise
                if self._said:
                    self._said.say("pass", f"it was not completed: {error_text(error)}")
                self.decider.leave_out_unexplained()
            else:
                failed = 0
                if self._said:
                    self._said.fine("pass")
            due = max(due + period_s, time.monotonic())
            stop.wait(max(due - time.monotonic(), 0.0))

    def one_pass(self) -> Comparison:
        """Make a pass and publish it."""
        comparison = self._turn()
        assert comparison is not None, "nothing stops it"
        return comparison

    def _turn(self) -> Comparison | None:
        """Make a pass; None: it was stopped before a decision."""
        watch, requests = _Watch(), self.cluster.request_count()
        if self.health:
            self.health.began()
        seen = self._observe(watch)
        if seen is None:
            return None
        responses, now_ms = seen
        applier = self.applier
        if applier is not None:
            applier.begin()
        watch.phase("apply")
        result = self.decider.decide(now_ms, responses)
        watch.phase("decide")
        if applier is not None:
            # Also after a stop: what was decided is written, then the loop ends.
            result = applier.carry_out(result)
            watch.phase("write")
        comparison = self.shadow.compare(result)
        watch.phase("compare")
        recorder = self.recorder
        if recorder is not None:
            recorder.observe(result.now_ms, responses, self.decider.outcomes())
            recorder.pass_done(
                result.now_ms, started=result.start, hpas=len(result),
                duration_ms=round(1000 * watch.total()), k8s=self.k8s,
            )  # fmt: skip
        self._save()
        watch.phase("record")
        result = replace(
            result,
            duration_s=watch.total(),
            phases=watch.phases,
            requests=self.cluster.request_count() - requests,
        )
        comparison = replace(comparison, result=result)
        self._tell(comparison)
        return comparison

    def _observe(self, watch: _Watch) -> tuple[Responses, int] | None:
        """Fetch, and take in changes until then; return the responses and the time.

        None: it was stopped, and the last requests may be incomplete.
        """
        self.cluster.read_scales()
        if self._stop.is_set():
            return None
        self._take_in()
        if self.applier:
            self.applier.read_ahead()
        responses: dict[MetricKey, Response] = {}
        now_ms = 0
        for _ in range(_MOST_FETCHES):
            wanted = self.decider.lanes.wanted()
            missing = {key for key in wanted if response_to(key, responses) is None}
            if now_ms and not missing:
                break
            responses |= self.cluster.fetch(missing)
            if self._stop.is_set():
                return None
            watch.phase("fetch")
            now_ms = self._take_in()
            watch.phase("cut")
        return responses, now_ms

    def _take_in(self) -> int:
        found, now_ms = self.cluster.cut()
        own = self.own_hpa
        changes = [one for one in found if one.kind is not Kind.hpa or one.key != own]
        self.decider.apply(changes)
        if self.recorder:
            self.recorder.apply(self._recorded(changes, now_ms))
        return now_ms

    def _recorded(self, changes: Sequence[Change], now_ms: int) -> list[Change]:
        """Return the changes to record: of pods only those of namespaces that have HPAs."""
        had = set(self._namespaces)
        self._namespaces |= {c.key[0] for c in changes if c.kind is Kind.hpa and c.thing}
        found = [c for c in changes if c.kind is not Kind.pod or c.key[0] in had]
        for namespace in sorted(self._namespaces - had):
            # Pods that were known before are recorded in their current state.
            found += [
                Change(Kind.pod, key, pod, now_ms - 1, listed=True)
                for key, pod in sorted(self.decider.lanes.pods.items())
                if key[0] == namespace
            ]
        return found

    def _save(self) -> None:
        path = self.state
        if path is None:
            return
        try:
            self.decider.save(path, self.state_of)
        except HpabatchError as error:
            if self._said:
                self._said.say("state", str(error))
            return
        if self._said:
            self._said.fine("state")

    def _tell(self, comparison: Comparison) -> None:
        result = comparison.result
        if self.exporter:
            figures = self.recorder.figures if self.recorder else None
            applied = self.applier.figures if self.applier else None
            self.exporter.publish(comparison, figures, applied)
        if self.health:
            self.health.done()
        if self._said:
            self._said.only("hpa", problems_of(result))
            self._said.only("cluster", self.cluster.problems(), _FINE_PASSES)
            if self.applier:
                self._said.only("apply", self.applier.problems())
        if self.log and self.tells_decisions:
            self.log.tell(comparison)


class _Watch:
    def __init__(self, clock: Callable[[], float] = time.perf_counter) -> None:
        self._clock = clock
        self._begun = self._last = clock()
        self.phases: dict[str, float] = {}

    def phase(self, name: str) -> None:
        """Count the time since the last call as that of a phase."""
        now = self._clock()
        self.phases[name] = self.phases.get(name, 0.0) + now - self._last
        self._last = now

    def total(self) -> float:
        """Return the seconds since the beginning."""
        return self._clock() - self._begun
