"""Work and samples of the naive simulator: docs/simulation.md, "Signals" and "Samples".

Where the document leaves something open, a comment that starts with "Reading:" says what is done.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

from .gomath import trunc_div
from .simulator_pods import Pod, Sample

Json = dict[str, Any]

HOUR_S = 3600


class Done(NamedTuple):
    """What became of one signal's work in one step.

    ``per_pod`` is what a serving pod of each class does (without the base); ``queue`` is what the
    next step finds.
    """

    per_pod: list[int]
    unserved: int
    saturated: bool
    queue: int


@dataclass
class Step:
    """One step, known from its end on; by signal: work, queue at its beginning, what was done."""

    begin: int
    end: int
    work: dict[str, int]
    queue: dict[str, int]
    done: dict[str, Done]


class Signals:
    """All signals of a workload with their past, step by step."""

    def __init__(self, case: Json, initial_pods: list[Pod]) -> None:
        self.case = case
        self.parameters: Json = case["plant"]["signals"]
        self.classes: list[int] = case["plant"]["pods"]["shares"]
        self.queue: dict[str, int] = {
            name: signal["queue_milli"] for name, signal in self.parameters.items()
        }
        self.steps: list[Step] = []
        self.totals: dict[str, Sample] = {}
        # all of the initial pods, whatever an event before the start does to them
        start: int = case["start_ms"]
        self.before = self._share_out(start, start, initial_pods)

    # --- work

    def work(self, name: str, instant: int) -> int:
        """Return a signal's work at an instant."""
        pieces: list[int] = self.case["work"][name]
        index: int = (instant - self.case["work_start_ms"]) // self.case["resolution_ms"]
        return pieces[min(max(index, 0), len(pieces) - 1)]

    def _share_out(self, begin: int, end: int, serving: list[Pod]) -> Step:
        work = {name: self.work(name, begin) for name in self.parameters}
        step = Step(begin, end, work, dict(self.queue), {})
        for name, signal in self.parameters.items():
            step.done[name] = self._do(signal, work[name], self.queue[name], serving, end - begin)
        return step

    def _do(self, signal: Json, work: int, queue: int, serving: list[Pod], period: int) -> Done:
        if signal["kind"] == "divisible":
            return self._divide(signal, work + queue, serving)
        if signal["kind"] == "per_pod":
            room = room_of(signal)
            cut_off = room is not None and work > room and bool(serving)
            return Done([capped(work, room)] * len(self.classes), 0, cut_off, 0)
        if signal["kind"] == "backlog":
            served = len(serving) * signal["rate_milli"]
            left = max(0, queue + trunc_div((work - served) * period, 1000))
            return Done([], left, False, left)
        return Done([], 0, False, 0)

    def _divide(self, signal: Json, offered: int, serving: list[Pod]) -> Done:
        unserved, saturated, per_class = 0, False, [0] * len(self.classes)
        if not serving:  # Reading: then pods of every class do nothing
            unserved, saturated = offered, offered > 0
        else:
            whole = offered * 1000 // sum(pod.share for pod in serving)
            room = room_of(signal)
            per_class = [capped(whole * share // 1000, room) for share in self.classes]
            for pod in serving:
                wished = whole * pod.share // 1000
                unserved += wished - capped(wished, room)
                saturated = saturated or capped(wished, room) < wished
        # Reading: a queue that is there at the start is offered also where overload is dropped
        queue = unserved if signal["overload"] == "queue" else 0
        return Done(per_class, unserved, saturated, queue)

    def serve(self, begin: int, end: int, serving: list[Pod]) -> Step:
        """Let the serving pods share the work of a step, and remember it."""
        step = self._share_out(begin, end, serving)
        for name, done in step.done.items():
            self.queue[name] = done.queue
        self.steps.append(step)
        return step

    def usage(self, name: str, pod: Pod, step: Step) -> int:
        """Return what a serving pod uses of a pod's signal in a step (age: at its beginning)."""
        signal = self.parameters[name]
        if signal["kind"] == "age":
            return age_usage(signal, pod, step.begin)
        return int(signal["base_milli"] + step.done[name].per_pod[pod.pod_class])

    # --- samples

    def take_in(self, now: int, last: int | None, pods: list[Pod]) -> None:
        """Take in what has become visible since the last tick (None: there was none)."""
        for name, signal in self.parameters.items():
            pipeline = seen_pipeline(self.case["plant"]["pipelines"][signal["api"]], signal)
            ts = newest_scrape(pipeline, now, last)
            if ts is not None:
                self._measure(name, signal, pipeline, ts, pods)

    def _measure(self, name: str, signal: Json, pipeline: Json, ts: int, pods: list[Pod]) -> None:
        if signal["kind"] in ("total", "backlog"):
            step = self.step_before(ts)
            value = step.work[name] if signal["kind"] == "total" else step.queue[name]
            self.totals[name] = Sample(ts, rounded_down(value, signal))
            return
        for pod in pods:
            if not pod.scheduled or (pod.gone is not None and pod.gone <= ts):
                continue
            assert pod.started is not None
            if pod.started + pipeline["first_sample_ms"] <= ts:
                value = self._pod_value(name, signal, pod, ts, pipeline["window_ms"])
                told = ts + sight_of(signal)["later_ms"]
                pod.samples[name] = Sample(told, scaled(rounded_down(value, signal), signal))

    def _pod_value(self, name: str, signal: Json, pod: Pod, ts: int, window: int) -> int:
        """Return the mean over a window, by what is known of the pod now."""
        if signal["kind"] == "age":
            return age_usage(signal, pod, ts)
        assert pod.started is not None
        assert pod.serve is not None
        base, startup = signal["base_milli"], signal["startup_milli"]
        begin = max(ts - window, pod.started)
        if begin == ts:
            done = self.step_before(ts).done[name].per_pod[pod.pod_class]
            return int(base + done if pod.serve <= ts else startup)
        in_service = max(0, ts - max(begin, pod.serve))
        not_yet = ts - begin - in_service
        work = self._integral(name, pod.pod_class, ts - in_service, ts)
        return int((base * in_service + work + startup * not_yet) // (ts - begin))

    def _integral(self, name: str, pod_class: int, begin: int, end: int) -> int:
        """Sum what a pod of a class does over the milliseconds after ``begin`` up to ``end``."""
        total = 0
        before_start = min(end, self.before.end) - begin
        if before_start > 0:
            total += before_start * self.before.done[name].per_pod[pod_class]
        for step in self.steps:
            inside = min(end, step.end) - max(begin, step.begin)
            if inside > 0:
                total += inside * step.done[name].per_pod[pod_class]
        return total

    def step_before(self, ts: int) -> Step:
        """Return the step of the millisecond that ends at an instant.

        Reading: every scrape at exactly a tick's instant takes the step before it, also one that
        is taken in later.
        """
        for step in self.steps:
            if step.begin < ts <= step.end:
                return step
        assert ts <= self.before.end, "nothing is known yet of the step of this instant"
        return self.before


def room_of(signal: Json) -> int | None:
    """Return the most that a pod can do beside its base; None: no limit is known."""
    ceiling: int | None = signal["ceiling_milli"]
    return None if ceiling is None else ceiling - int(signal["base_milli"])


def capped(wished: int, room: int | None) -> int:
    """Return what can be done of what is wished."""
    return wished if room is None else min(wished, room)


def age_usage(signal: Json, pod: Pod, instant: int) -> int:
    """Return what a pod of an age signal uses at an instant."""
    assert pod.started is not None
    age_s = (instant - pod.started) // 1000
    grown = signal["growth_milli_per_hour"] * age_s // HOUR_S
    usage = int(signal["base_milli"] + grown)
    ceiling: int | None = signal["ceiling_milli"]
    return usage if ceiling is None else min(usage, ceiling)


def rounded_down(value: int, signal: Json) -> int:
    """Round a measured value down to the signal's unit."""
    unit = int(signal["unit_milli"])
    return value // unit * unit


def sight_of(signal: Json) -> Json:
    """Return how the controller sees a signal; without a word of it, as it was measured."""
    plain = {"later_ms": 0, "smoothing_ms": 0, "scale_ppm": 1_000_000}
    return {**plain, **(signal.get("sight") or {})}


def seen_pipeline(pipeline: Json, signal: Json) -> Json:
    """Return the pipeline of a signal: longer means of its samples, and later."""
    sight, interval = sight_of(signal), pipeline["interval_ms"]
    samples = max(1, -(-sight["smoothing_ms"] // interval))
    return {
        **pipeline,
        "window_ms": pipeline["window_ms"] + (samples - 1) * interval,
        "lag_ms": pipeline["lag_ms"] + sight["later_ms"],
    }


def scaled(value: int, signal: Json) -> int:
    """Return a measured value times the scale, in whole units, half a unit rounded up."""
    unit, millionths = int(signal["unit_milli"]), sight_of(signal)["scale_ppm"]
    return int((value // unit * millionths * 2 + 1_000_000) // 2_000_000) * unit


def newest_scrape(pipeline: Json, now: int, last: int | None) -> int | None:
    """Return the instant of the newest scrape that became visible after the last tick."""
    interval, phase, lag = pipeline["interval_ms"], pipeline["phase_ms"], pipeline["lag_ms"]
    ts: int = (now - lag - phase) // interval * interval + phase
    while last is None or ts + lag > last:
        if not any(begin <= ts < end for begin, end in pipeline["gaps_ms"]):
            return ts
        ts -= interval
    return None
