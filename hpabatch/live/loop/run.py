"""The loop: every period, ask the metrics APIs, take in what changed, decide, compare, record.

A pass that is late is one pass: those it missed are not made up for.
"""

from __future__ import annotations

import threading
import time
import traceback
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Protocol

from hpabatch.cluster.apis.scales import REFRESH_S
from hpabatch.cluster.objects.types import Answers, Change, Kind, Wanted
from hpabatch.cluster.watch.feed import Cut
from hpabatch.errors import HpabatchError
from hpabatch.live.passes.decide import Decider
from hpabatch.live.passes.result import PassResult
from hpabatch.live.passes.shadow import Comparison, Shadow
from hpabatch.live.record.recorder import Recorder
from hpabatch.live.serve.exporter import Exporter, WatchState
from hpabatch.live.serve.log import LineLog, Said, problems_of
from hpabatch.live.serve.server import Health

_MOST_FETCHES = 3  # of one pass: HPAs that appear while others are asked for
_WAIT_SAID_S = 10.0
_MOST_FAILED = 5  # passes one after the other: then it is not the data of a moment
_FINE_PASSES = 2  # without a fault before it is over: one that comes and goes is not said each time


class Cluster(Protocol):
    """What the loop knows of a cluster."""

    def cut(self) -> Cut:
        """Return what has become known since the last cut, and the instant."""

    def learn(self) -> None:
        """Take in what is known so far, so that more can be watched; the next cut gives it all."""

    def states(self) -> Sequence[WatchState]:
        """Return how the watches stand."""

    def problems(self) -> dict[str, str]:
        """Return what is wrong with the cluster's APIs, by what it concerns."""

    def is_refused(self) -> bool:
        """Say whether what has to be known may not be read."""

    def read_scales(self) -> None:
        """Bring the scales up to date that no watch tells of."""

    def fetch(self, wanted: Wanted) -> Answers:
        """Ask the metrics APIs; whatever fails is in the answers."""

    def request_count(self) -> int:
        """Return how many requests were made so far."""


@dataclass(frozen=True, slots=True)
class LoopOptions:
    """What a loop was asked for.

    Attributes:
        period_ms: between the beginnings of two passes.
        k8s: the version whose rules are used, for the record.
        state: where what is remembered is kept; None: nowhere.
        state_of: what it belongs to: a file of something else is not taken up.
    """

    period_ms: int
    k8s: str
    state: Path | None = None
    state_of: str = ""


@dataclass(frozen=True, slots=True)
class Listeners:
    """Who is told of passes; each may be absent. `tells_decisions`: the log is told of them."""

    log: LineLog | None = None
    exporter: Exporter | None = None
    health: Health | None = None
    recorder: Recorder | None = None
    tells_decisions: bool = True


def longest_wait_s(budget_s: float) -> float:
    """Return how long requests may keep a pass waiting, if those for metrics take a budget."""
    return REFRESH_S + _MOST_FETCHES * budget_s


class Loop:
    """Decides a cluster again and again. One thread calls it."""

    def __init__(
        self,
        cluster: Cluster,
        decider: Decider,
        shadow: Shadow,
        options: LoopOptions,
        listeners: Listeners | None = None,
    ) -> None:
        """Prepare; nothing is asked yet."""
        self._cluster = cluster
        self._decider = decider
        self._shadow = shadow
        self._options = options
        self._told = listeners or Listeners()
        self._said = Said(self._told.log) if self._told.log else None
        self._namespaces: set[str] = set()
        self._stop = threading.Event()

    def wait_until_listed(self, stop: threading.Event, longest_s: float | None = None) -> str:
        """Wait until every watch has listed once; return what is missing when time is up, or "".

        Args:
            stop: set: give up.
            longest_s: seconds to wait; None: for ever, saying from time to time what is missing.
        """
        begun = said = time.monotonic()
        while True:
            self._cluster.learn()
            missing = [s.name for s in self._cluster.states() if not s.has_listed]
            if not missing or stop.is_set():
                return ""
            waited = time.monotonic() - begun
            refused = longest_s is not None and self._cluster.is_refused()
            text = f"not yet listed: {', '.join(missing)}"
            if longest_s is not None and (waited >= longest_s or refused):
                return "; ".join([text, *self._cluster.problems().values()])
            if self._said and waited >= _WAIT_SAID_S and time.monotonic() >= said:
                said = time.monotonic() + 1.0
                self._said.only(
                    "cluster", {"watches": text, **self._cluster.problems()}, _FINE_PASSES
                )
            if self._told.health:
                self._told.health.began()
            stop.wait(0.05)

    def run(self, stop: threading.Event) -> None:
        """Make a pass every period until `stop` is set.

        A pass whose requests are under way then ends without a decision: they may fail for no other
        reason than that nobody wants them any more. A pass that fails is said and the next one
        made: one odd answer must not end the loop.

        Raises:
            Exception: what so many passes one after the other failed with.
        """
        period_s = self._options.period_ms / 1000
        due, failed = time.monotonic(), 0
        self._stop = stop
        while not stop.is_set():
            try:
                self._turn()
            except BrokenPipeError:
                raise
            except Exception as error:
                failed += 1
                if failed == _MOST_FAILED:
                    raise
                self._say_failed(error)
            else:
                failed = 0
                if self._said:
                    self._said.fine("pass")
            due = max(due + period_s, time.monotonic())
            stop.wait(max(due - time.monotonic(), 0.0))

    def _say_failed(self, error: Exception) -> None:
        if self._said:
            at = traceback.extract_tb(error.__traceback__)[-1]
            place = f"{Path(at.filename).name}:{at.lineno}"
            self._said.say(
                "pass", f"no decision was made: {type(error).__name__}: {error} ({place})"
            )

    def one_pass(self) -> Comparison:
        """Make a pass and tell everybody of it."""
        comparison = self._turn()
        assert comparison is not None, "nothing stops it"
        return comparison

    def _turn(self) -> Comparison | None:
        """Make a pass; None: it was stopped before anything was decided."""
        watch, requests = _Watch(), self._cluster.request_count()
        if self._told.health:
            self._told.health.began()
        seen = self._observe(watch)
        if seen is None:
            return None
        answers, now_ms = seen
        watch.phase("apply")
        result = self._decider.decide(now_ms, answers)
        watch.phase("decide")
        comparison = self._shadow.compare(result)
        watch.phase("compare")
        self._record(result, answers, watch)
        watch.phase("record")
        result = replace(
            result,
            duration_s=watch.total(),
            phases=watch.phases,
            requests=self._cluster.request_count() - requests,
        )
        comparison = replace(comparison, result=result)
        self._tell(comparison)
        return comparison

    def _observe(self, watch: _Watch) -> tuple[Answers, int] | None:
        """Fetch, and take in what changed until then; return the answers and the instant.

        None: it was stopped, and what was asked for last may have been broken off.
        """
        self._cluster.read_scales()
        if self._stop.is_set():
            return None
        self._take_in()
        answers, now_ms = Answers(), 0
        for _ in range(_MOST_FETCHES):
            missing = _missing(self._decider.wanted(), answers)
            if now_ms and missing == Wanted():
                break
            answers = _joined(answers, self._cluster.fetch(missing))
            if self._stop.is_set():
                return None
            watch.phase("fetch")
            now_ms = self._take_in()
            watch.phase("cut")
        return answers, now_ms

    def _take_in(self) -> int:
        changes, now_ms = self._cluster.cut()
        self._decider.apply(changes)
        if self._told.recorder:
            self._told.recorder.apply(self._recorded(changes, now_ms))
        return now_ms

    def _recorded(self, changes: Sequence[Change], now_ms: int) -> list[Change]:
        """Return what is recorded: of pods only those of namespaces that have HPAs."""
        had = set(self._namespaces)
        self._namespaces |= {c.key[0] for c in changes if c.kind is Kind.hpa and c.thing}
        found = [c for c in changes if c.kind is not Kind.pod or c.key[0] in had]
        for namespace in sorted(self._namespaces - had):
            # They were known before: what is shown now stands for them.
            found += [
                Change(Kind.pod, (namespace, pod.name), pod, now_ms - 1, listed=True)
                for pod in self._decider.lanes.pods.pods_of(namespace)
            ]
        return found

    def _record(self, result: PassResult, answers: Answers, watch: _Watch) -> None:
        recorder = self._told.recorder
        if recorder is not None:
            recorder.observe(result.now_ms, answers, self._decider.outcomes())
            recorder.pass_done(
                result.now_ms, started=result.start, hpas=len(result),
                duration_ms=round(1000 * watch.total()), k8s=self._options.k8s,
            )  # fmt: skip
        self._save()

    def _save(self) -> None:
        path = self._options.state
        if path is None:
            return
        try:
            self._decider.save(path, self._options.state_of)
        except HpabatchError as error:
            if self._said:
                self._said.say("state", str(error))
            return
        if self._said:
            self._said.fine("state")

    def _tell(self, comparison: Comparison) -> None:
        told, result = self._told, comparison.result
        if told.exporter:
            figures = told.recorder.figures if told.recorder else None
            told.exporter.publish(comparison, self._shadow.totals(), figures)
        if told.health:
            told.health.done()
        if self._said:
            self._said.only("hpa", problems_of(result))
            self._said.only("cluster", self._cluster.problems(), _FINE_PASSES)
        if told.log and told.tells_decisions:
            told.log.tell(comparison)


class _Watch:
    """Times the phases of a pass."""

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


def _missing(wanted: Wanted, answers: Answers) -> Wanted:
    """Return what no answer was asked for yet."""
    return Wanted(
        frozenset(n for n in wanted.usage if answers.usage_of(n) is None),
        wanted.pods - answers.pods.keys(),
        wanted.objects - answers.objects.keys(),
        wanted.external - answers.external.keys(),
    )


def _joined(one: Answers, other: Answers) -> Answers:
    return Answers(
        {**one.usage, **other.usage},
        {**one.pods, **other.pods},
        {**one.objects, **other.objects},
        {**one.external, **other.external},
    )
