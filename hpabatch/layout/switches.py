"""Version switches of the rules, as bits of one number.

`model.versions` says which Kubernetes version sets which.
"""

from __future__ import annotations

from typing import Final

# Switches that rules look at, as bits of one number.
SUCCEEDED_PODS_IGNORED: Final = 1
PER_POD_AVERAGE_GUARDED: Final = 2
SCALE_TO_ZERO: Final = 4
TOLERANCE_BY_BOUNDS: Final = 8
ZERO_NEEDS_CONDITION: Final = 16
PARTIAL_FAILURE_GUARD: Final = 32
MISSING_CHARGED_BY_TARGET: Final = 64
RATIO_ONE_ADDS_NOTHING: Final = 128
PLAIN_DIRECTION_GUARD: Final = 256
REQUESTS_AFTER_EMPTINESS: Final = 512
WINDOWS_CLAMP_CURRENT: Final = 1024
BOTH_EVENT_LISTS: Final = 2048
TOTALS_CLAMPED: Final = 4096
CONTAINER_MAY_LACK: Final = 8192
FAILURE_SHOWS_METRICS: Final = 16384
STATUS_ROUND_TRIPS: Final = 32768
GENERATION_OBSERVED: Final = 65536
AVERAGES_CLAMPED: Final = 131072

# What no version does: bits of a what-if, beside those of a profile (see `rules.combine`).
COMBINE_MIN: Final = 1 << 30
COMBINE_MEAN: Final = 1 << 31
