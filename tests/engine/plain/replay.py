"""Replay a history: what the HPA rules decide at every tick, beside what was recorded.

Replay is not prediction: the replicas that the rules see are the recorded ones, so `desired` and
`applied` are separate columns. What had to be assumed is a named parameter, stored with the result.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
import polars as pl

import hpabatch
from hpabatch.arrays.layout import I64, empty_results
from hpabatch.arrays.memory import make_memory
from hpabatch.engine.align import Aligner, Clock, Lane, join_lanes
from hpabatch.engine.ambiguity import mark_ambiguous
from hpabatch.engine.candidates import (
    Candidate,
    Skipped,
    candidate_frame,
    candidates_from_history,
    candidates_from_manifests,
)
from hpabatch.engine.decisions import decisions_frame
from hpabatch.engine.flags import recorded_flags, recorded_starts
from hpabatch.engine.recording import Recording
from hpabatch.errors import HistoryError, UsageError
from hpabatch.history.reader import History
from hpabatch.kernels.replay import replay_fleet
from hpabatch.model import codes
from hpabatch.model.config import ControllerFlags, Profile, profile_for
from hpabatch.model.describe import metric_subject
from hpabatch.model.hpa import HPA

MIN_MAX_AGE_MS = 60_000
MOST_TOLD = 20  # warnings of one kind
MOST_DECISIONS = 1 << 25  # one takes 0.5 to 2 kB, more with many pods: some 30 GB
MAX_AGE_SPACINGS = 2.5  # an estimated max_age outlives one lost sample, not two

Progress = Callable[[str, float], None]
Select = Callable[[pl.DataFrame], pl.DataFrame]


@dataclass(frozen=True, slots=True)
class ReplayParameters:
    """Everything chosen or assumed; times in ms.

    `events` is "recorded" or "decided". An unset delay or phase is 0, assumed; `sync_period_ms`
    None takes the recorded flag, else 15 s; `max_age_ms` None estimates it from the spacing of the
    samples.
    """

    k8s: str
    events: str = "recorded"
    sync_period_ms: int | None = None
    phase_ms: int | None = None
    delay_ms: int | None = None
    max_age_ms: int | None = None


@dataclass(frozen=True, slots=True)
class ReplayResult:
    """Decisions per HPA and tick, the HPAs, those left out, and what the result rests on."""

    decisions: pl.DataFrame
    hpas: pl.DataFrame
    skipped: tuple[Skipped, ...]
    warnings: tuple[str, ...]
    evidence: dict[str, str]


def _silent(message: str, share: float) -> None:
    """Report no progress."""


def replay_history(
    history: History,
    parameters: ReplayParameters,
    manifests: Sequence[HPA] | None = None,
    select: Select | None = None,
    progress: Progress = _silent,
) -> ReplayResult:
    """Replay every HPA of a history (or `manifests` instead) through the exact rules.

    `select` gets the frame of candidates and returns the rows to replay. HPAs that cannot be
    replayed are `skipped`, the others go on.

    Raises:
        HistoryError: a table cannot be read, or there is nothing to replay.
        UsageError: there is no profile for that Kubernetes version.
    """
    profile = profile_for(parameters.k8s)
    progress("reading", 0.0)
    controller = history.read("controller")
    flags, flags_recorded = _flags(controller)
    recording = Recording(history, parameters.delay_ms or 0)
    settled, sources = _settle(parameters, recording, flags, flags_recorded)
    everyone, skipped = _candidates(history, recording, manifests, profile)
    candidates = _selected(everyone, select)
    clock = Clock(_ticks(recording, settled), recorded_starts(controller))
    _check_size(clock, len(candidates))
    lanes, more = _align(recording, candidates, clock, settled, profile, progress)
    progress("deciding", 0.8)
    pairs = mark_ambiguous(recording, clock, lanes, everyone)
    decisions = _decide(lanes, flags, profile, settled)
    progress("done", 1.0)
    return ReplayResult(
        decisions=decisions,
        hpas=candidate_frame([lane.candidate for lane in lanes]).drop("labels"),
        skipped=tuple(skipped + more),
        warnings=(
            *history.warnings,
            *_warnings(recording, lanes, pairs),
            *_without_hpa(recording, everyone, skipped),
        ),
        evidence=_evidence(settled, sources, flags, profile, history),
    )


def _flags(controller: pl.DataFrame) -> tuple[ControllerFlags, bool]:
    """Return the recorded flags, and whether any were; upstream's defaults without.

    Raises:
        HistoryError: clusters were run with different flags.
    """
    parts = controller.partition_by("cluster", maintain_order=True)
    found = [flags for part in parts if (flags := recorded_flags(part)) is not None]
    if any(flags != found[0] for flags in found):
        raise HistoryError(
            "controller: the clusters of this history were run with different flags; put each "
            "cluster into a history of its own"
        )
    return (found[0], True) if found else (ControllerFlags(), False)


def _candidates(
    history: History, recording: Recording, manifests: Sequence[HPA] | None, profile: Profile
) -> tuple[list[Candidate], list[Skipped]]:
    if manifests is None:
        return candidates_from_history(history.read("hpas"), profile)
    return candidates_from_manifests(manifests, list(recording.scales))


def _selected(candidates: list[Candidate], select: Select | None) -> list[Candidate]:
    if select is None:
        return candidates
    kept = select(candidate_frame(candidates).with_row_index("row"))["row"].to_list()
    return [candidates[k] for k in sorted(kept)]


def _settle(
    parameters: ReplayParameters, recording: Recording, flags: ControllerFlags, recorded: bool
) -> tuple[ReplayParameters, dict[str, str]]:
    """Return the parameters with nothing open, and where each came from."""
    names = ("delay", "phase", "sync_period", "max_age")
    sources = dict.fromkeys(names, "given")
    if parameters.delay_ms is None:
        sources["delay"] = "assumed"
        parameters = replace(parameters, delay_ms=0)
    if parameters.phase_ms is None:
        sources["phase"] = "assumed"
        parameters = replace(parameters, phase_ms=0)
    if parameters.sync_period_ms is None:
        sources["sync_period"] = "recorded" if recorded else "assumed"
        parameters = replace(parameters, sync_period_ms=flags.sync_period_ms)
    if parameters.max_age_ms is None:
        sources["max_age"] = "estimated"
        spacing = recording.sample_spacing_ms()
        max_age = max(MIN_MAX_AGE_MS, int(MAX_AGE_SPACINGS * spacing)) + (parameters.delay_ms or 0)
        parameters = replace(parameters, max_age_ms=max_age)
    if (parameters.delay_ms or 0) >= (parameters.max_age_ms or 0):
        raise UsageError(
            f"a delay of {parameters.delay_ms} ms is not below the max age of "
            f"{parameters.max_age_ms} ms: no sample would ever be visible"
        )
    return parameters, sources


def _ticks(recording: Recording, parameters: ReplayParameters) -> I64:
    """Return the instants of decision: all of the grid while samples become visible."""
    span = recording.span_ms()
    if span is None:
        raise HistoryError(
            "the history holds no sample of any metric, so there is nothing to replay; "
            "fill pod_metrics or one of the other metric tables"
        )
    period = parameters.sync_period_ms or ControllerFlags().sync_period_ms
    phase = (parameters.phase_ms or 0) % period
    first = -(-(span[0] - phase) // period) * period + phase
    ticks = np.arange(first, span[1] + 1, period, dtype=np.int64)
    if not ticks.size:
        raise HistoryError(
            f"no sync falls into the time that samples were recorded ({span[1] - span[0]} ms): "
            "choose a shorter sync period"
        )
    return ticks


def _check_size(clock: Clock, hpas: int) -> None:
    """Refuse what no memory holds; one sample with a wrong year is enough for that."""
    count = clock.ticks_ms.size * hpas
    if count > MOST_DECISIONS:
        ends = pl.Series(clock.ticks_ms[[0, -1]]).cast(pl.Datetime("ms", "UTC"))
        first, last = ends.dt.strftime("%Y-%m-%dT%H:%M:%SZ").to_list()
        raise HistoryError(
            f"samples from {first} to {last} make {clock.ticks_ms.size} ticks for {hpas} HPAs, "
            f"{count} decisions; at most {MOST_DECISIONS} fit: look for samples with a wrong time, "
            "choose fewer HPAs or a longer sync period, or replay parts of the history"
        )


def _align(
    recording: Recording,
    candidates: Sequence[Candidate],
    clock: Clock,
    parameters: ReplayParameters,
    profile: Profile,
    progress: Progress,
) -> tuple[list[Lane], list[Skipped]]:
    aligner = Aligner(recording, clock, parameters.max_age_ms or MIN_MAX_AGE_MS, profile)
    lanes, skipped = [], []
    for k, candidate in enumerate(candidates):
        progress("aligning", 0.1 + 0.7 * k / len(candidates))
        lane = aligner.lane(candidate)
        if lane is not None and lane.ticks.size:
            lanes.append(lane)
            continue
        reason = "none of its specs was in force while samples were recorded"
        if lane is None:
            kind, name = candidate.target[2:]
            reason = (
                f"its target {kind}/{name} has no row in the scales table, so its replicas are "
                "not known; record the target's scale, or correct scaleTargetRef"
            )
        skipped.append(Skipped(candidate.cluster, candidate.namespace, candidate.name, reason))
    return lanes, skipped


def _decide(
    lanes: Sequence[Lane], flags: ControllerFlags, profile: Profile, parameters: ReplayParameters
) -> pl.DataFrame:
    fleet = join_lanes(lanes, flags, profile)
    recorded = parameters.events == "recorded"
    memory = make_memory(fleet, recorded)
    results = empty_results(fleet.ticks.size, fleet.answers.size)
    replay_fleet(fleet, memory, recorded, results)
    return decisions_frame(lanes, fleet, results)


def _warnings(
    recording: Recording, lanes: Sequence[Lane], pairs: Sequence[tuple[Candidate, Candidate]]
) -> list[str]:
    found = []
    if recording.strays:
        found.append(
            f"pod_metrics: {recording.strays} rows belong to pods that the pods table does not "
            "hold; they are left out: record those pods"
        )
    if recording.repeated:
        found.append(
            f"pods: {recording.repeated} rows have the uid of a later row and are left out: a uid "
            "stands for one pod, correct the others"
        )
    for first, second in pairs:
        found.append(
            f"{first.namespace}/{first.name} and {second.namespace}/{second.name} match "
            "the same pods, so neither can scale (AmbiguousSelector): remove one of them"
        )
    return found + _silence(lanes)


def _without_hpa(
    recording: Recording, everyone: Sequence[Candidate], skipped: Sequence[Skipped]
) -> list[str]:
    """Return one sentence about recorded targets that no HPA scales."""
    if skipped:
        return []  # a refused HPA's target is not known
    idle = sorted(set(recording.scales) - {candidate.target for candidate in everyone})
    if not idle:
        return []
    names = ", ".join(f"{namespace}/{name}" for _, namespace, _, name in idle[:3])
    more = f" and {len(idle) - 3} more" if len(idle) > 3 else ""
    return [
        f"scales: no HPA for {names}{more}; they are left out: add their HPAs to hpas (or to the "
        "manifests) if they had any"
    ]


def _silence(lanes: Sequence[Lane]) -> list[str]:
    """Return a sentence for each metric that never had a visible sample; at most MOST_TOLD."""
    found = []
    for lane in lanes:
        c = lane.candidate
        for metric, recorded in lane.silent:
            if metric.type not in codes.SOURCE_TYPES:
                continue
            name = f"{c.namespace}/{c.name}: {metric.type} metric {metric_subject(metric)}"
            if recorded:
                found.append(
                    f"{name} was never visible to a tick: its samples belong to other pods or "
                    "times, or delay and max age hide them; it counts as failed throughout"
                )
            else:
                found.append(
                    f"{name}: no sample of it is in the history; it counts as failed throughout: "
                    "record it, or check its name and selector"
                )
    more = len(found) - MOST_TOLD
    return [*found[:MOST_TOLD], *([f"… and {more} more such metrics"] if more > 0 else [])]


def _evidence(
    parameters: ReplayParameters,
    sources: dict[str, str],
    flags: ControllerFlags,
    profile: Profile,
    history: History,
) -> dict[str, str]:
    found = {
        "hpabatch": hpabatch.__version__,
        "k8s": profile.name,
        "k8s_evidence": profile.evidence,
        "k8s_proof": profile.proof,
        "events": parameters.events,
        "sync_period": f"{parameters.sync_period_ms} ms ({sources['sync_period']})",
        "phase": f"{parameters.phase_ms} ms ({sources['phase']})",
        "delay": f"{parameters.delay_ms} ms ({sources['delay']})",
        "max_age": f"{parameters.max_age_ms} ms ({sources['max_age']})",
        "tolerance": str(flags.tolerance),
        "cpu_initialization_period": f"{flags.cpu_initialization_period_ms} ms",
        "initial_readiness_delay": f"{flags.initial_readiness_delay_ms} ms",
        "downscale_stabilization": f"{flags.downscale_stabilization_ms} ms",
    }
    for table, files in history.files.items():
        digest = hashlib.sha256()
        for file in files:
            with file.open("rb") as stream:
                while part := stream.read(1 << 20):
                    digest.update(part)
        found[f"sha256:{table}"] = digest.hexdigest()
    return found
