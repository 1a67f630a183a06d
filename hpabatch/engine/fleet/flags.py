"""The controller's flags and starts as a history records them."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

import polars as pl

from hpabatch.engine.fleet.frames import ALWAYS_MS, milliseconds
from hpabatch.errors import HistoryError
from hpabatch.history.checks import decode_cell
from hpabatch.layout.records import I64
from hpabatch.model.times import parse_go_duration_ns
from hpabatch.model.versions import ControllerFlags

PREFIX: Final = "horizontal-pod-autoscaler-"
"""Of the names of the flags below, on the controller's command line."""
FEATURE_GATES: Final = "feature-gates"
"""The name of the flag that says which gates are not as in the version."""
_DURATIONS: Final = {
    "cpu-initialization-period": "cpu_initialization_period_ms",
    "initial-readiness-delay": "initial_readiness_delay_ms",
    "downscale-stabilization": "downscale_stabilization_ms",
    "sync-period": "sync_period_ms",
}
FLAGS: Final = ("tolerance", *_DURATIONS)
"""The flags that decisions depend on, without their prefix."""


def parse_duration_ms(text: str) -> int:
    """Return a Go duration such as `5m0s`, `300ms` or `1.5h` in ms; none is negative here.

    Raises:
        ValueError: it is none, it is not a whole number of ms, or Go could not hold it.
    """
    if text.startswith("-"):
        raise ValueError(f"{text[:40]!r} is not a duration of at least 0, such as 15s or 1m30s")
    whole_ms, rest_ns = divmod(parse_go_duration_ns(text), 1_000_000)
    if rest_ns:
        raise ValueError(f"{text!r} is not a whole number of milliseconds")
    return whole_ms


def _tolerance(value: object) -> float:
    try:
        number = float(str(value))
    except ValueError:
        number = math.nan
    if not math.isfinite(number) or number < 0:
        raise ValueError(f"{value!r} is not a tolerance: it is a number of at least 0")
    return number


@dataclass(frozen=True, slots=True)
class FlagPeriod:
    """A controller's flags and since when it had them, in ms."""

    from_ms: int
    flags: ControllerFlags


DEFAULT_FLAGS = (FlagPeriod(ALWAYS_MS, ControllerFlags()),)


def recorded_flags(controller: pl.DataFrame) -> dict[str, tuple[FlagPeriod, ...]]:
    """Return by cluster the recorded flags in order of time, only changes; absent where none are.

    Flags that are not named have upstream's defaults.

    Raises:
        HistoryError: a flag has a value that is none.
    """
    found: dict[str, list[FlagPeriod]] = {}
    rows = controller.filter(pl.col("flags").is_not_null()).sort("cluster", "ts")
    for cluster, ts, text in rows.select(
        "cluster", pl.col("ts").to_physical(), "flags"
    ).iter_rows():
        flags, periods = parse_flags(text), found.setdefault(cluster, [])
        if not periods or periods[-1].flags != flags:
            periods.append(FlagPeriod(int(ts), flags))
    return {cluster: tuple(periods) for cluster, periods in found.items()}


def stated_flags(
    recorded: dict[str, tuple[FlagPeriod, ...]], clusters: Iterable[str], stated: Mapping[str, Any]
) -> dict[str, tuple[FlagPeriod, ...]]:
    """Return the flags of all clusters with stated ones in place of the recorded."""
    return {
        cluster: tuple(
            replace(period, flags=replace(period.flags, **stated))
            for period in recorded.get(cluster, DEFAULT_FLAGS)
        )
        for cluster in clusters
    }


def parse_flags(text: str) -> ControllerFlags:
    """Return a controller's flags from their JSON object (HistoryError: a value is none)."""
    values: dict[str, float] = {}
    for flag, value in decode_cell(text, dict, "controller.flags").items():
        name = str(flag).lstrip("-").removeprefix(PREFIX)
        try:
            if name in _DURATIONS:
                values[_DURATIONS[name]] = parse_duration_ms(str(value))
            elif name == "tolerance":
                values[name] = _tolerance(value)
        except ValueError as error:
            raise HistoryError(
                f"controller.flags: {flag}: {error}; correct the recorded flags"
            ) from error
    if values.get("sync_period_ms") == 0:
        raise HistoryError("controller.flags: the sync period is 0; correct the recorded flags")
    return ControllerFlags(**values)  # type: ignore[arg-type]


def recorded_gates(controller: pl.DataFrame) -> dict[str, str]:
    """Return by cluster the feature gates that were recorded last, "" where none were."""
    rows = controller.filter(pl.col("flags").is_not_null()).sort("cluster", "ts")
    return {
        str(cluster): str(decode_cell(text, dict, "controller.flags").get(FEATURE_GATES) or "")
        for cluster, text in rows.select("cluster", "flags").iter_rows()
    }


def recorded_starts(controller: pl.DataFrame) -> dict[str, I64]:
    """Return by cluster the times in ms at which a controller started with empty windows."""
    return _times(controller.filter(pl.col("event") == "start"))


def recorded_passes(passes: pl.DataFrame) -> tuple[dict[str, I64], dict[str, I64]]:
    """Return by cluster the passes of its live loop, and those at which it began, in ms."""
    return _times(passes), _times(passes.filter(pl.col("start")))


def _times(rows: pl.DataFrame) -> dict[str, I64]:
    """Return the times of rows by cluster, ascending, in ms."""
    parts = rows.sort("cluster", "ts").partition_by("cluster", as_dict=True, maintain_order=True)
    return {str(key[0]): milliseconds(part["ts"]) for key, part in parts.items()}
