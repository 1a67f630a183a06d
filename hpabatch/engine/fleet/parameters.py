"""Parameters of a replay: as asked, as resolved, and the source of each value."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np
import polars as pl

import hpabatch
from hpabatch.engine.fleet.flags import FlagPeriod
from hpabatch.engine.fleet.frames import milliseconds
from hpabatch.engine.fleet.sources import OWNER_COLUMNS, POD_TABLES, SERIES_TABLES
from hpabatch.engine.fleet.versions import Versions
from hpabatch.errors import UsageError
from hpabatch.history.checks import run_starts
from hpabatch.history.provenance import RECORDER
from hpabatch.history.reader import History
from hpabatch.model.options import Request
from hpabatch.model.versions import ControllerFlags

STANDING_MS = 2**60
"""The max age of samples that stand until they are replaced or withdrawn: longer than any time."""

RECORDED = "recorded"
NO_MAX_AGE = f"none ({RECORDED})"
MIN_MAX_AGE_MS = 60_000
MAX_AGE_SPACINGS = 2.5  # an estimated max_age outlives one lost sample, not two
SAMPLED_PLACES = 32  # of each table, evenly chosen, a day of each: enough for a median

SAMPLE_TABLES = (*POD_TABLES, *SERIES_TABLES)


@dataclass(frozen=True, slots=True)
class ReplayParameters:
    """Everything chosen or assumed; times in ms.

    `k8s` None takes each cluster's recorded version, else the default; `feature_gates` overrides
    gates (`Gate=true,Other=false`). `events` is "recorded" or "decided", `instants` "grid",
    "recorded" (the controller's own) or "passes" (a live loop's). An unset delay is 0, assumed;
    `sync_period_ms` None takes the recorded flag, else 15 s; `phase_ms` None estimates it per
    HPA from what was recorded of its controller, else 0; `max_age_ms` None estimates it from
    the spacing of the samples, unless a recorder says until when each stood. Flags that are
    None are as recorded, else upstream's defaults. `requests` are in place of recorded ones
    (`stated_requests`). No sync after `until` is decided: ms since 1970, or a time as people
    write it, against the history's end.
    """

    k8s: str | None = None
    feature_gates: str = ""
    events: str = "recorded"
    sync_period_ms: int | None = None
    phase_ms: int | None = None
    delay_ms: int | None = None
    max_age_ms: int | None = None
    instants: str = "grid"
    until: int | str | None = None
    tolerance: float | None = None
    cpu_initialization_period_ms: int | None = None
    initial_readiness_delay_ms: int | None = None
    downscale_stabilization_ms: int | None = None
    requests: tuple[str, ...] = ()

    @property
    def flags(self) -> dict[str, float]:
        """The stated flags beside the sync period, by their fields of ControllerFlags."""
        names = {f.name for f in fields(ControllerFlags)} - {"sync_period_ms"}
        stated = {name: getattr(self, name) for name in sorted(names)}
        return {name: value for name, value in stated.items() if value is not None}


@dataclass(frozen=True, slots=True)
class Settled:
    """The parameters with nothing open; `sources` says of each where it came from.

    In the clusters of `standing`, sorted, a sample counts until it is replaced or withdrawn; in
    others for `max_age_ms`.
    """

    events: str
    instants: str
    sync_period_ms: int
    phase_ms: int
    delay_ms: int
    max_age_ms: int
    sources: dict[str, str]
    standing: tuple[str, ...] = ()

    def max_age_of(self, cluster: str) -> int:
        """Return how long a sample of a cluster counts without a newer one, in ms."""
        return STANDING_MS if cluster in self.standing else self.max_age_ms

    def max_age_text(self) -> str:
        """Return the max age in words, where it came from beside it."""
        if self.all_stand:
            return NO_MAX_AGE
        text = f"{self.max_age_ms} ms ({self.sources['max_age']})"
        return f"{text}; {NO_MAX_AGE} in {', '.join(self.standing)}" if self.standing else text

    @property
    def all_stand(self) -> bool:
        """Whether no cluster has a max age."""
        return self.sources["max_age"] == RECORDED


def settle(
    parameters: ReplayParameters, history: History, flags: dict[str, tuple[FlagPeriod, ...]]
) -> Settled:
    """Return the parameters with nothing open.

    Raises:
        UsageError: with that delay and max age no sample would ever be visible.
        HistoryError: a sample table cannot be read.
    """
    names = ("delay", "phase", "sync_period", "max_age")
    sources = dict.fromkeys(names, "given")
    delay_ms = parameters.delay_ms or 0
    if parameters.delay_ms is None:
        sources["delay"] = "assumed"
    if parameters.phase_ms is None:
        sources["phase"] = "assumed"
    period_ms = parameters.sync_period_ms
    if period_ms is None:
        sources["sync_period"] = "recorded" if flags else "assumed"
        periods = {p[-1].flags.sync_period_ms for p in flags.values()}
        if len(periods) > 1:
            raise UsageError(
                "the clusters of this history were run with different sync periods ("
                + ", ".join(f"{ms} ms" for ms in sorted(periods))
                + "): name one with --sync-period, "
                "or replay the clusters one by one with --where \"cluster = '...'\" and it"
            )
        period_ms = next(iter(periods), ControllerFlags().sync_period_ms)
    max_age_ms, standing = parameters.max_age_ms, _standing(history)
    if max_age_ms is None:
        all_stand = standing and _sampled(history) <= set(standing)
        sources["max_age"] = RECORDED if all_stand else "estimated"
        spacing = int(MAX_AGE_SPACINGS * sample_spacing_ms(history))
        max_age_ms = max(MIN_MAX_AGE_MS, spacing) + delay_ms
    if delay_ms >= max_age_ms:
        raise UsageError(
            f"a delay of {delay_ms} ms is not below the max age of {max_age_ms} ms: no sample "
            "would ever be visible"
        )
    return Settled(
        events=parameters.events,
        instants=parameters.instants,
        sync_period_ms=period_ms,
        phase_ms=parameters.phase_ms or 0,
        delay_ms=delay_ms,
        max_age_ms=max_age_ms,
        sources=sources,
        standing=standing if parameters.max_age_ms is None else (),
    )


def _standing(history: History) -> tuple[str, ...]:
    """Return the clusters of which a recorder says until when each sample stood."""
    rows = history.distinct("provenance", ["cluster", "subject", "method"])
    own = (pl.col("method") == RECORDER) & pl.col("subject").is_in(SAMPLE_TABLES)
    return tuple(rows.filter(own)["cluster"].unique().sort())


def _sampled(history: History) -> set[str]:
    return {name for table in SAMPLE_TABLES for name in history.span(table)["cluster"]}


def with_source(settled: Settled, name: str, source: str) -> Settled:
    """Return the same with another source of one value."""
    return replace(settled, sources={**settled.sources, name: source})


def sample_spacing_ms(history: History) -> int:
    """Return the median time between two samples of one pod or series; 0 if unknown.

    Taken from the day with the most samples (the first of equal ones; a history may begin minutes
    before midnight) of SAMPLED_PLACES places of each sample table, evenly chosen by name: the same
    for equal rows, however they are stored.
    """
    steps = [_steps(frame, table) for table in SAMPLE_TABLES for frame in _examples(history, table)]
    known = np.concatenate([np.zeros(0, np.int64), *steps])
    return int(np.median(known)) if known.size else 0


def _examples(history: History, table: str) -> list[pl.DataFrame]:
    """Return the samples of some places, each of its fullest day, in frames of one day."""
    sizes = history.sizes(table)
    keys = ["cluster", "namespace", "place"]
    fullest = sizes.sort("rows", "day", descending=[True, False], maintain_order=True)
    places = fullest.group_by(keys, maintain_order=True).agg(pl.col("day").first()).sort(keys)
    chosen = np.unique(np.linspace(0, places.height - 1, SAMPLED_PLACES).astype(np.int64))
    columns = ["ts", *_OWNER[table]]
    values = [] if table == "pod_metrics" else ["value_milli"]
    together = places[chosen if places.height else []].group_by(
        "cluster", "day", maintain_order=True
    )
    return [
        # (a row without a value is no sample)
        history.select(
            table,
            str(cluster),
            theirs.select("namespace", "place").rows(),
            day=theirs["day"][0],
            columns=[*columns, *values],
        ).drop_nulls(values or ["ts"])
        for (cluster, _), theirs in together
    ]


_OWNER = OWNER_COLUMNS | {
    "pod_metrics": ("uid",),
    "pod_custom_metrics": ("metric", "selector", "uid"),
}


def _steps(frame: pl.DataFrame, table: str) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    step = np.diff(milliseconds(frame["ts"]), prepend=0)
    step[run_starts(frame.select(_OWNER[table]))] = 0
    return np.asarray(step[step > 0], np.int64)


def evidence_of(
    settled: Settled,
    flags: Sequence[ControllerFlags],
    versions: Versions,
    history: History,
) -> dict[str, str]:
    """Return what a result rests on, as texts; `flags` are each cluster's newest."""
    known = flags or [ControllerFlags()]

    def of(name: str, unit: str = "") -> str:
        return ", ".join(dict.fromkeys(f"{getattr(f, name)}{unit}" for f in known))

    found = {
        "hpabatch": hpabatch.__version__,
        **versions.evidence(),
        "events": settled.events,
        "instants": settled.instants,
        "sync_period": f"{settled.sync_period_ms} ms ({settled.sources['sync_period']})",
        "phase": f"{settled.phase_ms} ms ({settled.sources['phase']})",
        "delay": f"{settled.delay_ms} ms ({settled.sources['delay']})",
        "max_age": settled.max_age_text(),
        "tolerance": of("tolerance"),
        "cpu_initialization_period": of("cpu_initialization_period_ms", " ms"),
        "initial_readiness_delay": of("initial_readiness_delay_ms", " ms"),
        "downscale_stabilization": of("downscale_stabilization_ms", " ms"),
    }
    return found | {f"sha256:{table}": text for table, text in history.digests().items()}


def replay_parameters(request: Request, **fixed: Any) -> ReplayParameters:
    """Return what a request states of a replay; `fixed` overrides it, the rest has its default."""
    declared = request.options()
    stated = {
        f.name: getattr(request, f.name) for f in fields(ReplayParameters) if f.name in declared
    }
    if "at" in declared:
        stated["until"] = request.at  # type: ignore[attr-defined]
    return ReplayParameters(**stated | fixed)
