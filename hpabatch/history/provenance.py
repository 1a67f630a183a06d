"""Provenance of a history's parts: the table `provenance`, read and continued.

A row holds for an HPA or workload, for a namespace (no name) or for a whole cluster (neither); the
narrowest one counts. Missing data is stated as well: `absent`, or `assumed`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

import polars as pl

from hpabatch.history.base import History
from hpabatch.history.columns import TEXT, TIME
from hpabatch.history.schema import empty_frame

TABLE: Final = "provenance"

BEHAVIOR: Final = "hpas.spec.behavior"
METRICS: Final = "hpas.spec.metrics"
"""Subjects that `hpabatch history info` has sentences about."""

RUN: Final = "run"
"""Subject of a simulated run: valid from its first tick until after its last."""

TARGET_ROWS: Final = "scales"
"""Subject of the time in which an import has rows of a workload (method `rows`)."""

EVENTS: Final = "events"
MANIFEST: Final = "manifest"
STATUS: Final = "status"
RECORDER: Final = "recorder"
ROWS: Final = "rows"
ASSUMED: Final = "assumed"
ABSENT: Final = "absent"
GUESSED: Final = "guessed"
"""Methods; a table may hold others."""

HPAS: Final = "hpas"
REQUESTS: Final = "pod_requests"
"""Subjects that the map of an import may state as guessed, of workloads by name."""

UNRECORDED: Final = frozenset({ASSUMED, ABSENT})

Named = tuple[str, str, str]
"""Cluster, namespace and name."""

SUMMARY: Final = pl.Schema(
    {
        "cluster": TEXT,
        "subject": TEXT,
        "method": TEXT,
        "covers": TEXT,
        "names": pl.Int64(),
        "valid_from": TIME,
        "valid_to": TIME,
        "detail": TEXT,
    }
)
"""`covers`: all, namespaces or names, the widest of the rows; `names`: number of objects with rows
of their own; `detail`: only where all rows have the same."""


class Methods:
    """Methods by which a subject is known, for each HPA or workload."""

    def __init__(self, rows: pl.DataFrame, subject: str) -> None:
        """Take rows of `provenance`: cluster, namespace, name, subject and method at least."""
        self._found: dict[Named, set[str]] = {}
        chosen = rows.filter(pl.col("subject") == subject)
        for *place, method in chosen.select("cluster", "namespace", "name", "method").rows():
            self._found.setdefault((place[0], place[1], place[2]), set()).add(method)

    def of(self, cluster: str, namespace: str, name: str) -> frozenset[str]:
        """Return the methods of the narrowest rows that hold; empty: not stated."""
        for place in ((cluster, namespace, name), (cluster, namespace, ""), (cluster, "", "")):
            if place in self._found:
                return frozenset(self._found[place])
        return frozenset()

    @property
    def named(self) -> list[Named]:
        """The HPAs and workloads that have rows of their own, sorted."""
        return sorted(place for place in self._found if place[2])


def behavior_methods(history: History) -> Methods:
    """Return the methods by which the behavior of a history's HPAs is known.

    Raises:
        HistoryError: the table is broken.
    """
    wanted = ["cluster", "namespace", "name", "subject", "method"]
    return Methods(history.distinct(TABLE, wanted), BEHAVIOR)


def summarise(rows: pl.DataFrame) -> pl.DataFrame:
    """Return a row per cluster, subject and method of `provenance`, with the columns of `SUMMARY`.

    Raises nothing.
    """
    named, placed = pl.col("name") != "", pl.col("namespace") != ""
    some = pl.when((placed & ~named).any()).then(pl.lit("namespaces")).otherwise(pl.lit("names"))
    widest = pl.when((~placed & ~named).any()).then(pl.lit("all")).otherwise(some)
    return (
        rows.group_by("cluster", "subject", "method")
        .agg(
            covers=widest,
            names=pl.struct("namespace", "name").filter(named).n_unique().cast(pl.Int64),
            valid_from=pl.col("valid_from").min(),
            # An open end is later than any other.
            valid_to=pl.when(pl.col("valid_to").is_not_null().all()).then(pl.col("valid_to").max()),
            detail=pl.when(pl.col("detail").n_unique() == 1).then(pl.col("detail").first()),
        )
        .select(SUMMARY.names())
        .cast(SUMMARY)
        .sort("cluster", "subject", "method")
    )


def unrecorded(rows: pl.DataFrame, hpas: Iterable[Named]) -> dict[str, list[Named]]:
    """Return the HPAs with unrecorded parts, sorted, by subject.

    Args:
        rows: the table `provenance`.
        hpas: the HPAs of the history. An HPA with unknown metrics is not among them, but has a row
            in `provenance`.
    """
    known = set(hpas)
    behavior, metrics = Methods(rows, BEHAVIOR), Methods(rows, METRICS)
    without = {name for name in known if behavior.of(*name) & UNRECORDED}
    left_out = {name for name in metrics.named if ABSENT in metrics.of(*name)} - known
    return {BEHAVIOR: sorted(without), METRICS: sorted(left_out)}


def guesses_told(
    history: History, targets: Iterable[Named], *, hpas: bool = True
) -> tuple[str, ...]:
    """Return a sentence if an import guessed HPAs or requests of some targets of HPAs.

    Without `hpas`, HPAs are stated elsewhere: only guessed requests count.

    Raises:
        HistoryError: the table is broken.
    """
    columns = ["cluster", "namespace", "name", "subject", "method"]
    rows = history.distinct(TABLE, columns).filter(pl.col("method") == GUESSED)
    if rows.is_empty():
        return ()
    meant, subjects = set(targets), [*([HPAS] if hpas else []), REQUESTS]
    found = {s: set(rows.filter(pl.col("subject") == s).select(columns[:3]).rows()) & meant
             for s in subjects}  # fmt: skip
    guessed = sorted(set().union(*found.values()))
    if not guessed:
        return ()
    words = {HPAS: "HPAs" if len(guessed) > 1 else "HPA", REQUESTS: "requests"}
    what = " and ".join(words[subject] for subject in subjects if found[subject])
    more = f" and {len(guessed) - 1:,} more" if len(guessed) > 1 else ""
    return (
        f"`import table --init` guessed the {what} of {'/'.join(guessed[0][1:])}{more}, and all "
        "results rest on that: import again with --objects, or state them in the map and take them "
        "out of its `guessed`",
    )


def continued(rows: pl.DataFrame, stored: pl.DataFrame | None) -> pl.DataFrame:
    """Return the rows to add to a store so that an unchanged provenance stays one row.

    A row with the method and detail of the store's last row before it, and that begins while that
    one is valid, is left out, or prolongs it where it ended at that time.

    Args:
        rows: the table `provenance` of an import.
        stored: that of the store; None: it has none.
    """
    if stored is None or stored.is_empty() or rows.is_empty():
        return rows
    last: dict[tuple[str, ...], list[dict[str, Any]]] = {}
    for row in stored.sort("valid_from").rows(named=True):
        last.setdefault(_key(row), []).append(row)
    added: list[dict[str, Any]] = []
    for row in rows.sort("valid_from").rows(named=True):
        known = last.setdefault(_key(row), [])
        earlier = [one for one in known if one["valid_from"] <= row["valid_from"]]
        older = max(reversed(earlier), key=lambda one: one["valid_from"], default=None)
        if older is not None and _goes_on(older, row):
            if older["valid_to"] is None or older["valid_to"] == row["valid_to"]:
                continue
            ends = older["valid_to"], row["valid_to"]
            last_end = None if None in ends else max(ends)
            row = {**row, "valid_from": older["valid_from"], "valid_to": last_end}
        added.append(row)
        known.append(row)
    schema = empty_frame(TABLE).schema
    return pl.DataFrame(added, schema={name: schema[name] for name in rows.columns})


def _key(row: Mapping[str, Any]) -> tuple[str, ...]:
    return tuple(str(row[name]) for name in ("cluster", "namespace", "name", "subject"))


def _goes_on(older: Mapping[str, Any], row: Mapping[str, Any]) -> bool:
    """Whether a row that begins later states the same without a gap."""
    if (older["method"], older.get("detail")) != (row["method"], row.get("detail")):
        return False
    end, begin = older["valid_to"], row["valid_from"]
    return end is None or bool(end >= begin)
