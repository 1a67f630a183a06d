"""How the parts of an import were come by, as rows of the table `provenance`."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import polars as pl

_SCHEMA = pl.Schema(
    {
        "namespace": pl.String(),
        "name": pl.String(),
        "subject": pl.String(),
        "valid_from": pl.Int64(),
        "valid_to": pl.Int64(),
        "method": pl.String(),
        "detail": pl.String(),
    }
)


@dataclass(frozen=True, slots=True)
class Source:
    """How something was come by: `subject` by `method`; "" for a name: all of them."""

    subject: str
    method: str
    detail: str | None = None
    namespace: str = ""
    name: str = ""


def provenance_rows(sources: Iterable[Source], after_ms: int, until_ms: int) -> pl.DataFrame:
    """Return rows that hold for a window, times in ms."""
    rows = [
        (one.namespace, one.name, one.subject, after_ms, until_ms, one.method, one.detail)
        for one in dict.fromkeys(sources)
    ]
    key = ("namespace", "name", "subject")
    return pl.DataFrame(rows, schema=_SCHEMA, orient="row").sort(*key)
