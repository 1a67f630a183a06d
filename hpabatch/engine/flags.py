"""The controller's flags and starts as a history records them."""

from __future__ import annotations

import json
import re

import polars as pl

from hpabatch.arrays.layout import I64
from hpabatch.engine.recording import milliseconds
from hpabatch.errors import HistoryError
from hpabatch.model.config import ControllerFlags

_UNITS_MS = {"h": 3_600_000.0, "m": 60_000.0, "s": 1000.0, "ms": 1.0, "us": 1e-3, "µs": 1e-3}
_PART = re.compile(r"(\d+(?:\.\d+)?)(h|ms|us|µs|m|s)")
_PREFIX = "horizontal-pod-autoscaler-"
_DURATIONS = {
    "cpu-initialization-period": "cpu_initialization_period_ms",
    "initial-readiness-delay": "initial_readiness_delay_ms",
    "downscale-stabilization": "downscale_stabilization_ms",
    "sync-period": "sync_period_ms",
}


def parse_duration_ms(text: str) -> int:
    """Return a Go duration such as `5m0s`, `300ms` or `1.5h` in ms.

    Raises:
        ValueError: it is none, or it is not a whole number of ms.
    """
    parts = _PART.findall(text)
    if text == "0":
        return 0
    if not parts or "".join(number + unit for number, unit in parts) != text:
        raise ValueError(f"{text!r} is not a duration such as 15s, 1m30s or 500ms")
    total = sum(float(number) * _UNITS_MS[unit] for number, unit in parts)
    if total != int(total):
        raise ValueError(f"{text!r} is not a whole number of milliseconds")
    return int(total)


def recorded_flags(controller: pl.DataFrame) -> ControllerFlags | None:
    """Return the flags of the newest row that has some, None if none was recorded.

    Flags that are not named have upstream's defaults.

    Raises:
        HistoryError: a flag has a value that is none.
    """
    rows = controller.filter(pl.col("flags").is_not_null()).sort("ts")
    if rows.is_empty():
        return None
    values: dict[str, float] = {}
    for flag, value in json.loads(rows["flags"][-1]).items():
        name = str(flag).lstrip("-").removeprefix(_PREFIX)
        try:
            if name in _DURATIONS:
                values[_DURATIONS[name]] = parse_duration_ms(str(value))
            elif name == "tolerance":
                values[name] = float(value)
        except (TypeError, ValueError) as error:
            raise HistoryError(
                f"controller.flags: {flag}: {error}; correct the recorded flags"
            ) from error
    return ControllerFlags(**values)  # type: ignore[arg-type]


def recorded_starts(controller: pl.DataFrame) -> I64:
    """Return the times in ms at which a controller started with empty windows."""
    return milliseconds(controller.filter(pl.col("event") == "start")["ts"])
