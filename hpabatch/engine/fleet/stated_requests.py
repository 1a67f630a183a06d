"""Requests of containers that a what-if states in place of the recorded ones."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

import polars as pl

from hpabatch.errors import UsageError
from hpabatch.history.reader import History
from hpabatch.inputs.document_kinds import quantity_milli
from hpabatch.model.suggestions import did_you_mean

_COLUMNS: Final = {"cpu": "cpu_milli", "memory": "memory_milli"}
_CONTAINERS: Final = ("app", "sidecar", "init")
_FORM: Final = (
    "expected [NAMESPACE/]WORKLOAD[/CONTAINER]=QUANTITY of cpu, or =cpu=QUANTITY,memory=QUANTITY, "
    "such as web=250m or shop/web/app=memory=512Mi"
)


class StatedRequest(NamedTuple):
    """A request of a container; without `container`, of the only app container of each pod."""

    text: str
    namespace: str
    target: str
    container: str
    column: str
    milli: int

    def of_target(self) -> pl.Expr:
        """Return whether a row of `pod_requests` is of the workload."""
        named = pl.col("target") == self.target
        return named & (pl.col("namespace") == self.namespace) if self.namespace else named

    def of_row(self) -> pl.Expr:
        """Return whether a row of `pod_requests` gets the request."""
        if self.container:
            is_container = pl.col("kind").is_in(_CONTAINERS)
            return self.of_target() & is_container & (pl.col("container") == self.container)
        # A request of the pod as a whole counts instead of its containers'.
        whole = (pl.col("kind") == "pod") & pl.col(self.column).is_not_null()
        return self.of_target() & (whole | (pl.col("kind") == "app"))


def stated_requests(texts: Sequence[str], history: History) -> tuple[StatedRequest, ...]:
    """Return the stated requests, each of containers that the history has.

    Raises:
        UsageError: one is malformed, or of no container or of several.
        HistoryError: the table of requests is broken.
    """
    stated = tuple(request for text in texts for request in parse_requests(text))
    if stated:
        names = history.distinct("pod_requests", ["namespace", "target", "container", "kind"])
        for request in stated:
            _check(request, names)
    return stated


def parse_requests(text: str) -> list[StatedRequest]:
    """Return the requests that `web=250m` or `shop/web/app=cpu=1,memory=1Gi` states.

    Raises:
        UsageError: it is malformed.
    """
    place, _, amounts = text.partition("=")
    names = place.split("/")
    if not 1 <= len(names) <= 3 or not all(names) or not amounts:
        raise UsageError(f"--requests {text}: {_FORM}")
    namespace, target, container = {
        1: ("", names[0], ""), 2: (*names[:2], ""), 3: names[:3]
    }[len(names)]  # fmt: skip
    found = []
    for amount in amounts.split(","):
        resource, _, quantity = amount.rpartition("=")
        milli = quantity_milli(quantity)
        column = _COLUMNS.get(resource or "cpu")
        if column is None or not isinstance(milli, int) or milli < 1:
            raise UsageError(f"--requests {text}: {_FORM}")
        found.append(StatedRequest(text, namespace, target, container, column, milli))
    return found


def _check(request: StatedRequest, names: pl.DataFrame) -> None:
    theirs = names.filter(request.of_target())
    if theirs.is_empty():
        known = names["target"].drop_nulls().unique().sort().to_list()
        hint = did_you_mean(request.target, known)
        raise UsageError(f"--requests {request.text}: expected a recorded workload{hint}")
    kinds = _CONTAINERS if request.container else ("app",)
    rows = theirs.filter(pl.col("kind").is_in(kinds))
    there = rows["container"].unique().sort().to_list()
    if request.container and request.container not in there:
        hint = did_you_mean(request.container, there)
        raise UsageError(
            f"--requests {request.text}: expected a container of {request.target}{hint}; it has "
            f"{', '.join(there)}"
        )
    several = rows.group_by("namespace").agg(pl.col("container").n_unique())["container"].max()
    if not request.container and several != 1:
        raise UsageError(
            f"--requests {request.text}: expected the container, as pods of {request.target} have "
            f"{', '.join(there) or 'none'}; write NAMESPACE/{request.target}/CONTAINER=…"
        )


def with_requests(rows: pl.DataFrame, stated: Sequence[StatedRequest]) -> pl.DataFrame:
    """Return rows of `pod_requests` with the stated requests; of several the last one counts."""
    for request in stated:
        column = request.column
        changed = pl.when(request.of_row()).then(request.milli).otherwise(pl.col(column))
        rows = rows.with_columns(changed.cast(pl.Int64).alias(column))
    return rows
