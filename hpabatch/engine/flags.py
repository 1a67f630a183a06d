"""The controller's flags and starts as a history records them."""

from __future__ import annotations

import json
import math
import re
from dataclasses import dataclass
from fractions import Fraction
from typing import Final

import polars as pl

from hpabatch.arrays.layout import I64
from hpabatch.engine.frames import milliseconds
from hpabatch.errors import HistoryError
from hpabatch.model.config import ControllerFlags

_UNITS_MS: Final[dict[str, Fraction]] = {
    "h": Fraction(3_600_000),
    "m": Fraction(60_000),
    "s": Fraction(1000),
    "ms": Fraction(1),
    "us": Fraction(1, 1000),
    "µs": Fraction(1, 1000),  # U+00B5, the micro sign
    "μs": Fraction(1, 1000),  # U+03BC, the Greek letter
    "ns": Fraction(1, 1_000_000),
}
_PART = re.compile(r"([0-9]+\.?[0-9]*|\.[0-9]+)(ms|us|µs|μs|ns|h|m|s)")
_LONGEST_MS = (2**63 - 1) // 1_000_000  # Go counts nanoseconds in 64 bits
_LONGEST_TEXT = 200
_PREFIX = "horizontal-pod-autoscaler-"
FEATURE_GATES: Final = "feature-gates"
"""The name of the flag that says which gates are not as in the version."""
_DURATIONS = {
    "cpu-initialization-period": "cpu_initialization_period_ms",
    "initial-readiness-delay": "initial_readiness_delay_ms",
    "downscale-stabilization": "downscale_stabilization_ms",
    "sync-period": "sync_period_ms",
}


def parse_duration_ms(text: str) -> int:
    """Return a Go duration such as `5m0s`, `300ms` or `1.5h` in ms; none is negative here.

    Raises:
        ValueError: it is none, it is not a whole number of ms, or Go could not hold it.
    """
    plain = text.removeprefix("+")
    if plain == "0":
        return 0
    # (a text that long is no duration, and its numbers would take long to read)
    parts = _PART.findall(plain) if len(plain) <= _LONGEST_TEXT else []
    if not parts or "".join(number + unit for number, unit in parts) != plain:
        raise ValueError(f"{text[:40]!r} is not a duration such as 15s, 1m30s or 500ms")
    total = sum((Fraction("0" + n) * _UNITS_MS[unit] for n, unit in parts), Fraction(0))
    if total.denominator != 1:
        raise ValueError(f"{text!r} is not a whole number of milliseconds")
    if total > _LONGEST_MS:
        raise ValueError(f"{text!r} is longer than a Go duration can be (292 years)")
    return int(total)


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


def parse_flags(text: str) -> ControllerFlags:
    """Return a controller's flags from their JSON object (HistoryError: a value is none)."""
    values: dict[str, float] = {}
    for flag, value in json.loads(text).items():
        name = str(flag).lstrip("-").removeprefix(_PREFIX)
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
        str(cluster): str(json.loads(text).get(FEATURE_GATES) or "")
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
