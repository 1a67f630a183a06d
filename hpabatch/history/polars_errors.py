"""Errors of Polars in one line."""

from __future__ import annotations

import polars as pl

BROKEN = (pl.exceptions.PolarsError, pl.exceptions.PanicException)


def first_line(error: BaseException) -> str:
    """Return the first line of an error's message, its type's name without one."""
    return (str(error).strip().splitlines() or [type(error).__name__])[0][:200]
