"""Replay a small history plainly: all lanes in memory, each tick decided under its flags."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from copy import deepcopy

import numpy as np
import polars as pl

from hpabatch.engine.fleet.candidates import Candidate, candidates_from_history, stored_candidate
from hpabatch.engine.fleet.flags import FlagPeriod, recorded_flags
from hpabatch.history.reader import History
from hpabatch.kernels.replay import replay_lane
from hpabatch.layout.records import I64, Fleet, Results, empty_results
from hpabatch.model.objects.hpa import HPAStatus
from hpabatch.model.versions import ControllerFlags, Profile, profile_for
from hpabatch.packing.memory import lane_capacities, make_sized_memory, seed_status
from tests.engine.plain.align import Aligner, Answer, Facts, Lane, join_lanes
from tests.engine.plain.decisions import decisions_frame
from tests.engine.plain.recording import Recording

HpaKey = tuple[str, str, str]
Seeds = dict[int, HPAStatus]


def replay_plainly(
    history: History,
    k8s: str,
    *,
    period_ms: int,
    phase_ms: int = 0,
    delay_ms: int,
    max_age_ms: int,
    events: str = "recorded",
    instants: str = "grid",
    ambiguous: Mapping[HpaKey, Collection[int]],
) -> pl.DataFrame:
    """Return the decisions of every HPA at every tick.

    `ambiguous` are the instants (ms) at which an HPA's selector is ambiguous.
    """
    profile = profile_for(k8s)
    recording = Recording(history, delay_ms)
    found, _ = candidates_from_history(history.read("hpas"), lambda _: profile)
    candidates = [stored_candidate(candidate, profile) for candidate in found]
    grid = grid_of(recording, period_ms, phase_ms)
    own = recorded_instants(history, recording) if instants == "recorded" else {}
    starts, answers = _starts(history), _answers(history)
    if instants == "passes":
        passes = _passes(history)
        begin = {c: [ms for ms, start in rows if start] for c, rows in passes.items()}
        starts |= {c: np.array(times, np.int64) for c, times in begin.items()}
        ends = [ms for rows in passes.values() for ms, _ in rows]
        grid = grid_of(recording, period_ms, phase_ms, ends)
        at = {c: np.array([ms for ms, _ in rows], np.int64) for c, rows in passes.items()}
        keys = [(c.cluster, c.namespace, c.name) for c in candidates]
        own = {key: at[key[0]] for key in keys if key[0] in at}
    statuses = _statuses(history)
    none = np.zeros(0, np.int64)
    aligner = Aligner(recording, max_age_ms, profile)
    lanes: dict[str, list[Lane]] = {}
    for c in candidates:
        key = (c.cluster, c.namespace, c.name)
        facts = Facts(
            own.get(key, grid),
            starts.get(c.cluster, none),
            answers.get(key, ()),
            ambiguous.get(key, ()),
        )
        lane = aligner.lane(c, facts)
        if lane is not None and lane.ticks.size:
            lanes.setdefault(c.cluster, []).append(lane)
    flags = recorded_flags(history.read("controller"))
    default = (FlagPeriod(0, ControllerFlags()),)
    frames = []
    for cluster, theirs in sorted(lanes.items()):
        begun: list[Seeds] = [{} for _ in theirs]
        if instants == "passes" and cluster in at:
            begun = [
                _begun(lane.candidate, at[cluster], begin[cluster], statuses) for lane in theirs
            ]
        fleet, results = decide(
            theirs, flags.get(cluster, default), profile, events == "recorded", begun
        )
        frames.append(decisions_frame(theirs, fleet, results, profile))
    return pl.concat(frames)


def grid_of(
    recording: Recording, period_ms: int, phase_ms: int, more_ms: Sequence[int] = ()
) -> I64:
    """Return all instants of the grid while samples become visible, and around further times."""
    span_ms = recording.span_ms()
    first_ms, last_ms = min(*span_ms, *more_ms), max(*span_ms, *more_ms)
    before = first_ms - first_ms % period_ms + phase_ms
    ticks = np.arange(before, last_ms + 1, period_ms)
    return ticks[ticks >= first_ms].astype(np.int64)


def recorded_instants(history: History, recording: Recording) -> dict[HpaKey, I64]:
    """Return by HPA when its metrics were fetched, else when its status was seen."""
    first_ms, last_ms = recording.span_ms()
    found: dict[HpaKey, I64] = {}
    for table in ("hpa_status", "metric_fetches"):
        own: dict[HpaKey, set[int]] = {}
        for row in history.read(table, optional=True).iter_rows(named=True):
            at = round(row["ts"].timestamp() * 1000)
            own.setdefault((row["cluster"], row["namespace"], row["name"]), set()).add(at)
        for key, times in own.items():
            inside = sorted(ms for ms in times if first_ms <= ms <= last_ms)
            found[key] = np.array(inside, np.int64)
    return found


def _starts(history: History) -> dict[str, I64]:
    found: dict[str, list[int]] = {}
    for row in history.read("controller").iter_rows(named=True):
        if row["event"] == "start":
            found.setdefault(row["cluster"], []).append(round(row["ts"].timestamp() * 1000))
    return {cluster: np.array(sorted(times), np.int64) for cluster, times in found.items()}


def _passes(history: History) -> dict[str, list[tuple[int, bool]]]:
    found: dict[str, list[tuple[int, bool]]] = {}
    for row in history.read("passes").sort("ts").iter_rows(named=True):
        at = round(row["ts"].timestamp() * 1000)
        found.setdefault(row["cluster"], []).append((at, row["start"]))
    return found


def _answers(history: History) -> dict[HpaKey, list[Answer]]:
    found: dict[HpaKey, list[Answer]] = {}
    for row in history.read("metric_fetches").iter_rows(named=True):
        key = row["cluster"], row["namespace"], row["name"]
        at = round(row["ts"].timestamp() * 1000)
        found.setdefault(key, []).append((at, row["metric_index"], row["answer"]))
    return found


def _statuses(history: History) -> dict[HpaKey, list[tuple[int, str, HPAStatus]]]:
    found: dict[HpaKey, list[tuple[int, str, HPAStatus]]] = {}
    for row in history.read("hpa_status", optional=True).sort("ts").iter_rows(named=True):
        assert not row.get("conditions"), "this reads sizes only"
        key = row["cluster"], row["namespace"], row["name"]
        at = round(row["ts"].timestamp() * 1000)
        status = HPAStatus(row["current_replicas"], row["desired_replicas"])
        found.setdefault(key, []).append((at, row["uid"], status))
    return found


def _begun(
    candidate: Candidate,
    passes: I64,
    begin: Collection[int],
    statuses: Mapping[HpaKey, list[tuple[int, str, HPAStatus]]],
) -> Seeds:
    """Return with which status a live loop begins an HPA of which it remembers nothing, and when.

    At its first pass, after one that did not see it, and where the loop began.
    """
    found: Seeds = {}
    there = False
    shown = statuses.get((candidate.cluster, candidate.namespace, candidate.name), [])
    for now in passes.tolist():
        was_there = there
        uids = [p.uid for p in candidate.periods if p.from_ms <= now < p.to_ms]
        there = bool(uids)
        if there and (not was_there or now in begin):
            before = [(uid, status) for ms, uid, status in shown if ms < now]
            uid, status = before[-1] if before else ("", HPAStatus())
            found[now] = status if uid == uids[0] or not uids[0] else HPAStatus()
    return found


def decide(
    lanes: Sequence[Lane],
    flags: Sequence[FlagPeriod],
    profile: Profile,
    recorded: bool,
    begun: Sequence[Seeds],
) -> tuple[Fleet, Results]:
    """Return one cluster's lanes as a fleet, and their decisions: each tick under its flags.

    `begun`: by lane, at which ticks it begins with which status.
    """
    fleets = [join_lanes(deepcopy(list(lanes)), period.flags, profile) for period in flags]
    sizes = [lane_capacities(fleet, recorded) for fleet in fleets]
    memory = make_sized_memory(
        np.max([size[0] for size in sizes], axis=0), np.max([size[1] for size in sizes], axis=0)
    )
    fleet = fleets[0]
    results = empty_results(fleet.ticks.size, fleet.answers.size)
    since = [period.from_ms for period in flags]
    for h in range(len(lanes)):
        for t in range(int(fleet.lanes.first_tick[h]), int(fleet.lanes.last_tick[h])):
            epoch = sum(ms <= fleet.ticks.now_ms[t] for ms in since[1:])
            status = begun[h].get(int(fleet.ticks.now_ms[t]))
            if status is not None:
                seed_status(memory, h, status)
            replay_lane(fleets[epoch], memory, h, t, t + 1, recorded, results)
    return fleet, results
