"""Parts of a capacity plan: HPAs that are fitted and run together, and what they hold.

A part has the rows of its HPAs, and each run's number of pods as changes: sums over all HPAs are
made of these in the order of the HPAs, so how a plan is cut, and who computes its parts, does not
show. A run of 30 days has 172,800 ticks and some hundred to thousand changes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np
import polars as pl

from hpabatch.engine.capacity.rows import frame_of, hpa_row
from hpabatch.engine.capacity.runs import TODAY, UNCLAMPED, Runs, Track, run_all
from hpabatch.engine.capacity.sums import Span
from hpabatch.engine.columns.capacity import PLAN_HPAS
from hpabatch.engine.fleet.candidates import Skipped
from hpabatch.engine.fleet.requested import Requested
from hpabatch.engine.simulate.case import SimulationCase
from hpabatch.engine.simulate.result import with_advice, with_cost
from hpabatch.engine.simulate.run import Loop, LoopOptions
from hpabatch.engine.simulate.work import hangs_on_guess, has_no_ceiling
from hpabatch.layout.records import I64
from hpabatch.model.quota import CORES, GIB, LIMIT_CORES, LIMIT_GIB, PODS

Key = tuple[str, str, str]
Tell = Callable[[float], None]
"""Gets the share of a part's runs that is done."""

HOURS: Final = {PODS: "pod_hours", CORES: "core_hours", GIB: "gib_hours"}
"""The measure of a run that adds up each amount; of limits none does."""

_AMOUNTS: Final = (PODS, CORES, GIB, LIMIT_CORES, LIMIT_GIB)
_HELD: Final[Mapping[str, Any]] = {
    **dict.fromkeys(("cluster", "namespace", "hpa", "bounds"), pl.String),
    "usable": pl.Boolean,
    **dict.fromkeys(("start_ms", "period_ms", *_AMOUNTS), pl.Int64),
    **dict.fromkeys(("hours", *HOURS.values(), "cost"), pl.Float64),
    **dict.fromkeys(("sizes", "ticks"), pl.List(pl.Int32)),
}


@dataclass(frozen=True, slots=True)
class PlannedPart:
    """What is planned of some HPAs.

    `frames` by name: `hpas_name(growth)` has their rows, `held_name(growth)` a row for each run
    that counts in sums: an HPA under the bounds TODAY, and UNCLAMPED where these have an end. Its
    `sizes` are pods, each for as many `ticks`, from `start_ms` on; `pods` to `limit_gib` are what
    one pod holds (1, millicores, bytes; null: not known). `span` is that of the runs, None without
    any. `guessed` and `without_ceiling` are by HPA whether its result hangs on such an assumption.
    """

    frames: Mapping[str, pl.DataFrame]
    span: Span | None
    skipped: tuple[Skipped, ...]
    notes: tuple[str, ...]
    guessed: Mapping[Key, bool] = field(default_factory=dict)
    without_ceiling: Mapping[Key, bool] = field(default_factory=dict)


def hpas_name(growth_milli: int) -> str:
    """Return the name of the frame of HPAs under a growth."""
    return f"hpas-{growth_milli}"


def held_name(growth_milli: int) -> str:
    """Return the name of the frame of runs under a growth."""
    return f"held-{growth_milli}"


def planned_part(
    loop: Loop,
    growths: tuple[int, ...],
    options: LoopOptions,
    limits: Mapping[Key, Requested],
    tell: Tell = lambda share: None,
) -> PlannedPart:
    """Run HPAs that are ready to be simulated under each growth (thousandths) of their work.

    `limits` are those of a pod by HPA, where sums of them are asked for.
    """
    cases = sorted(loop.cases, key=lambda case: case.key[:3])
    frames, done = {}, 0
    for growth_milli in growths:
        hpas: list[dict[str, object]] = []
        held: list[list[object]] = []
        profile = loop.plan.versions.one()
        for runs in run_all(cases, growth_milli, profile, options.seed):
            priced = with_cost(runs.measures, options.prices)
            rows = {row["setting"]: row for row in with_advice(priced, loop).to_dicts()}
            reasons = [rows[UNCLAMPED]["why_not"], *_endless(runs.tracks)]
            why_not = "; ".join(reason for reason in reasons if reason)
            hpas.append(hpa_row(runs, growth_milli, rows, why_not))
            held += _held(runs, rows, not why_not, limits.get(runs.key))
            done += 1
            tell(done / (len(cases) * len(growths)))
        frames[hpas_name(growth_milli)] = frame_of(hpas, PLAN_HPAS.meanings)
        frames[held_name(growth_milli)] = pl.DataFrame(held, schema=_HELD, orient="row")
    return PlannedPart(
        frames=frames,
        span=span_of([Span(c.start_ms, c.period_ms, _end_ms(c)) for c in cases]),
        skipped=loop.skipped,
        notes=loop.notes,
        guessed={key: hangs_on_guess(facts) for key, facts in loop.facts.items()},
        without_ceiling={key: has_no_ceiling(facts) for key, facts in loop.facts.items()},
    )


def span_of(spans: list[Span]) -> Span | None:
    """Return the span of some spans."""
    if not spans:
        return None
    starts, periods, ends = zip(*spans, strict=True)
    return Span(min(starts), min(periods), max(ends))


def _end_ms(case: SimulationCase) -> int:
    return case.start_ms + case.period_ms * case.steps


def _endless(tracks: Mapping[str, Track]) -> Iterator[str]:
    """Yield why no maxReplicas would have sufficed."""
    track = tracks[UNCLAMPED]
    if track.has_no_end:
        yield (
            f"without maxReplicas it asks for ever more pods (beyond {track.ceiling:,}): its "
            "metric does not fall below the target however many there are"
        )
    elif track.rises:
        yield (
            f"at the end of the run it was still rising (at {track.highest:,}), held back by "
            "its scale-up rules alone"
        )


def _held(
    runs: Runs, rows: Mapping[str, Mapping[str, Any]], usable: bool, limits: Requested | None
) -> Iterator[list[object]]:
    """Yield the rows of an HPA's runs that count in sums."""
    pod = amounts_of(runs.tracks[TODAY].case.requested, limits)
    for bounds in (TODAY, UNCLAMPED):
        track, row = runs.tracks[bounds], rows[bounds]
        if bounds == UNCLAMPED and track.is_open:
            continue
        sizes, ticks = changes_of(track.held)
        yield [
            *runs.key,
            bounds,
            usable,
            track.case.start_ms,
            track.case.period_ms,
            *(pod.get(name) for name in _AMOUNTS),
            *(row[name] for name in ("hours", *HOURS.values(), "cost")),
            sizes.tolist(),
            ticks.tolist(),
        ]


def amounts_of(requested: Requested, limited: Requested | None = None) -> dict[str, int]:
    """Return what one pod holds: millicores and bytes (rounded up); what is not known is left out.

    `limited` None: limits are not asked for.
    """
    parts = {PODS: 1}
    for given, cores, memory in ((requested, CORES, GIB), (limited, LIMIT_CORES, LIMIT_GIB)):
        if given is not None and given.cpu_milli is not None:
            parts[cores] = given.cpu_milli
        if given is not None and given.memory_milli is not None:
            parts[memory] = -(-given.memory_milli // 1000)
    return parts


def changes_of(values: I64) -> tuple[I64, I64]:
    """Return the values of stretches of equal ones, and how long each is."""
    first = np.flatnonzero(np.diff(values, prepend=values[:1] - 1))
    return values[first], np.diff(first, append=values.size)


@dataclass(frozen=True, slots=True)
class Held:
    """A run that counts in sums: a row of `PlannedPart.frames[held_name(...)]`.

    `values` are the pods after each tick, `pod` what one holds by resource.
    """

    key: Key
    bounds: str
    usable: bool
    start_ms: int
    period_ms: int
    values: I64
    pod: Mapping[str, int]
    hours: Mapping[str, float]
    length_hours: float
    cost: float | None


def held_runs(frame: pl.DataFrame) -> Iterator[Held]:
    """Yield the runs of a frame."""
    plain = frame.drop("sizes", "ticks").iter_rows(named=True)
    for k, row in enumerate(plain):
        sizes, ticks = (frame[name][k].to_numpy() for name in ("sizes", "ticks"))
        yield Held(
            key=(row["cluster"], row["namespace"], row["hpa"]),
            bounds=row["bounds"],
            usable=row["usable"],
            start_ms=row["start_ms"],
            period_ms=row["period_ms"],
            values=np.repeat(sizes.astype(np.int64), ticks),
            pod={name: row[name] for name in _AMOUNTS if row[name] is not None},
            hours={resource: row[name] for resource, name in HOURS.items()},
            length_hours=row["hours"],
            cost=row["cost"],
        )
