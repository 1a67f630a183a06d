"""Parts of a capacity plan: HPAs that are fitted and run together, and what they hold.

A part has the rows of its HPAs, and each run's number of pods as changes: sums over all HPAs are
made of these in the order of the HPAs, so how a plan is cut, and who computes its parts, does not
show. A run of 30 days has 172,800 ticks and some hundred to thousand changes.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import astuple
from typing import Any, Final

import numpy as np
import polars as pl

from hpabatch.engine.capacity.runs import FREE, TODAY, UNCLAMPED, Runs, Track, run_all
from hpabatch.engine.capacity.sums import MINUTE_MS, MONEY, PERCENTILES, Span, Sums, percentile
from hpabatch.engine.columns.capacity import PLAN_HPAS
from hpabatch.engine.fleet.requested import Requested
from hpabatch.engine.simulate.case import SimulationCase
from hpabatch.engine.simulate.result import with_advice, with_cost
from hpabatch.engine.simulate.run import Loop, LoopOptions
from hpabatch.engine.simulate.work import Key, hangs_on_guess, has_no_ceiling
from hpabatch.layout.records import I64
from hpabatch.model.quota import CORES, GIB, LIMIT_CORES, LIMIT_GIB, PODS

Part = tuple[Mapping[str, pl.DataFrame], Mapping[str, Any]]
"""What is planned of some HPAs: frames by name, and plain values.

`hpas_name(growth)` has their rows, `held_name(growth)` a row for each run that counts in sums: an
HPA under the bounds TODAY, and UNCLAMPED where these have an end. Its `sizes` are pods, each for as
many `ticks`, from `start_ms` on; `pods` to `limit_gib` are what one pod holds (1, millicores,
bytes; null: not known). `span` is that of the runs, None without any. `assumed` says by HPA whether
its result hangs on a guessed kind, and on an assumed ceiling.
"""

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
) -> Part:
    """Run HPAs that are ready to be simulated under each growth (thousandths) of their work.

    `limits` are those of a pod by HPA, where sums of them are asked for.
    """
    cases = sorted(loop.cases, key=lambda case: case.key[:3])
    frames = {}
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
        frames[hpas_name(growth_milli)] = frame_of(hpas, PLAN_HPAS.meanings)
        frames[held_name(growth_milli)] = pl.DataFrame(held, schema=_HELD, orient="row")
    assumed = [
        [*key, hangs_on_guess(facts), has_no_ceiling(facts)] for key, facts in loop.facts.items()
    ]
    return frames, {
        "span": span_of([(c.start_ms, c.period_ms, _end_ms(c)) for c in cases]),
        "skipped": [astuple(skipped) for skipped in loop.skipped],
        "notes": loop.notes,
        "assumed": assumed,
    }


def span_of(spans: Sequence[Sequence[int]]) -> Span | None:
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


def held_runs(frame: pl.DataFrame) -> Iterator[tuple[Mapping[str, Any], I64]]:
    """Yield the runs of a frame: its row, and the pods that it holds after each tick."""
    plain = frame.drop("sizes", "ticks").iter_rows(named=True)
    for k, row in enumerate(plain):
        sizes, ticks = (frame[name][k].to_numpy() for name in ("sizes", "ticks"))
        yield row, np.repeat(sizes.astype(np.int64), ticks)


def hold(space: Sums, row: Mapping[str, Any], values: I64) -> None:
    """Add what a run holds, and costs, to its namespace."""
    months = MONTH_HOURS / row["hours"]
    bounds, usable = row["bounds"], row["usable"]
    first, held = space.grid.on(row["start_ms"], row["period_ms"], values)
    for resource in _AMOUNTS:
        if row[resource] is not None:
            hours = row[HOURS[resource]] if resource in HOURS else 0.0
            part = (bounds, usable, resource)
            space.hold(part, first, held, row[resource], hours, hours * months)
    if row["cost"] is not None:
        space.pay((bounds, usable, MONEY), row["cost"], row["cost"] * months)


MONTH_HOURS: Final = 720.0
"""A month is 30 days."""


def hpa_row(
    runs: Runs, growth_milli: int, rows: Mapping[str, Mapping[str, object]], why_not: str
) -> dict[str, object]:
    """Return the row of an HPA under a growth."""
    today, unclamped, free = (runs.tracks[b] for b in (TODAY, UNCLAMPED, FREE))
    case = today.case
    spec = case.periods[-1].spec
    now, more = rows[TODAY], rows[UNCLAMPED]
    at_max = today.desired == spec.max_replicas
    count = int(at_max.sum())
    first = case.start_ms + int(at_max.argmax()) * case.period_ms if count else None
    cluster, namespace, hpa = runs.key
    return {
        "cluster": cluster,
        "namespace": namespace,
        "hpa": hpa,
        "growth": growth_milli / 1000,
        "start": case.start_ms,
        "hours": now["hours"],
        "min_replicas": spec.min_replicas,
        "max_replicas": spec.max_replicas,
        **case.requested._asdict(),
        **{f"desired_p{p}": percentile(unclamped.desired, p) for p in PERCENTILES},
        "desired_max": int(unclamped.desired.max()),
        "max_sufficient": None if unclamped.is_open else unclamped.highest,
        "min_sufficient": None if free.is_open else free.lowest,
        "max_with_min": None if free.is_open else free.highest,
        "first_at_max": first,
        "at_max_minutes": count * case.period_ms / MINUTE_MS,
        "at_max_pct": 100.0 * count / at_max.size,
        "held_minutes": now["at_max_minutes"],
        **_both("saturated_minutes", now, more),
        **_both("pod_hours", now, more),
        **_both("cost", now, more),
        **{f"month{end}": _month(row) for end, row in (("", now), ("_unclamped", more))},
        "currency": now["currency"],
        "outside_pct": more["outside_pct"],
        "min_outside_pct": rows[FREE]["outside_pct"],
        "censored_pct": more["censored_pct"],
        "usable": not why_not,
        "why_not": why_not,
    }


def _both(name: str, now: Mapping[str, object], more: Mapping[str, object]) -> dict[str, object]:
    return {name: now[name], f"{name}_unclamped": more[name]}


def _month(row: Mapping[str, object]) -> float | None:
    cost, hours = row["cost"], row["hours"]
    if not isinstance(cost, float) or not isinstance(hours, float):
        return None
    return cost * MONTH_HOURS / hours


_TYPES: Final[Mapping[str, Any]] = {
    **dict.fromkeys(("cluster", "namespace", "hpa", "currency", "why_not", "scope", "bounds",
                     "covers", "resource", "unit", "quota_name"), pl.String),
    **dict.fromkeys(("min_replicas", "max_replicas", "cpu_milli", "memory_milli", "desired_p50",
                     "desired_p95", "desired_p99", "desired_max", "max_sufficient",
                     "min_sufficient", "max_with_min", "hpas", "of"), pl.Int64),
    **dict.fromkeys(("start", "first_at_max", "first_exceeded"), pl.Int64),
    "usable": pl.Boolean,
}  # fmt: skip
_TIMES: Final = ("start", "first_at_max", "first_exceeded")


def frame_of(rows: Sequence[Mapping[str, object]], columns: Mapping[str, str]) -> pl.DataFrame:
    """Return rows as a frame with the documented columns."""
    found = {
        name: pl.Series([row[name] for row in rows], dtype=_TYPES.get(name, pl.Float64))
        for name in columns
    }
    times = [pl.col(name).cast(pl.Datetime("ms", "UTC")) for name in _TIMES if name in columns]
    return pl.DataFrame(found).with_columns(times)
