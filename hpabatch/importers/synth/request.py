"""Options of a synthetic fleet, and how large its history gets."""

from __future__ import annotations

import hashlib
import json
import re
from dataclasses import dataclass
from datetime import date, datetime
from typing import Any

from hpabatch.errors import UsageError
from hpabatch.model.options import Request, option
from hpabatch.model.times import show_duration

DAY_MS = 86_400_000
DAY_S = 86_400

MAX_SAMPLES = 10**12
MIN_STEP_MS = 1_000
MAX_STEP_MS = 3_600_000
# The lives of a workload's pods are played at once and stay in memory, about 1 kB each.
MAX_POD_DAYS = 100_000
_JITTER_MS = 1000

# Any change to what is drawn must raise this number: it keeps an interrupted run of an older
# version from being continued with other data.
_GENERATOR = 2

# Bytes of Parquet per sample, measured on 2 to 7 M samples each: in whole seconds, and what
# fetch times, sidecars (their rows take turns) and jitter in milliseconds add; and per pod.
_SAMPLE_BYTES = 1.9
_FETCHED_BYTES = 1.0
_SIDECAR_BYTES = 1.3
_FINE_BYTES = 1.2
_POD_BYTES = 200
# Of the mix, these parts of the HPAs have Pods metrics, and Object or External ones.
_PODS_METRIC_SHARE = 0.12


@dataclass(frozen=True, kw_only=True)
class SynthRequest(Request):
    """A synthetic fleet: its size, span, faults and seed."""

    hpas: int = option(
        "number", "Number of HPAs, each with a Deployment.", 100, metavar="N", minimum=1,
        maximum=100_000,
    )  # fmt: skip
    pods: int = option(
        "number", "Pods of an HPA, on average.", 20, metavar="N", minimum=1, maximum=5000
    )
    days: int = option("number", "Number of UTC days.", 1, metavar="N", minimum=1, maximum=366)
    step_ms: int = option(
        "duration", "Time between two samples of a pod; divides the day.", 15_000, metavar="TIME",
        minimum=MIN_STEP_MS, maximum=MAX_STEP_MS,
    )  # fmt: skip
    seed: int = option(
        "number", "Seed of all random draws.", 7, metavar="N", minimum=0, maximum=2**63 - 1
    )
    start: str = option("text", "First day (UTC).", "2026-10-05", metavar="YYYY-MM-DD")
    metrics: str = option(
        "choice", "Metrics of the HPAs: cpu utilization only, or a mix of all types.", "cpu",
        values=("cpu", "mix"),
    )  # fmt: skip
    gaps: float = option(
        "real", "Share of the samples that are lost, half of them in runs.", 0.002,
        metavar="SHARE", minimum=0, maximum=0.9,
    )  # fmt: skip
    late: float = option(
        "real", "Share of the samples that are fetched one to four steps late; 0: fetch times are "
        "not recorded.", 0.0, metavar="SHARE", minimum=0, maximum=1,
    )  # fmt: skip
    jitter_ms: int | None = option(
        "duration", "Most time by which a sample comes late; less than --step.", metavar="TIME",
        unset="1s, 0s for steps below 3s",
    )  # fmt: skip
    containers: int = option(
        "number", "Containers of a pod; all but the first are sidecars.", 1, metavar="N",
        minimum=1, maximum=9,
    )  # fmt: skip
    cluster: str = option("text", "Name of the cluster.", "synthetic", metavar="NAME")
    clusters: int = option(
        "number", "Clusters that the namespaces are dealt to; several are NAME-1, NAME-2, ….", 1,
        metavar="N", minimum=1, maximum=1000,
    )  # fmt: skip

    def check(self) -> None:
        """Refuse what cannot be made (UsageError)."""
        super().check()
        if DAY_MS % self.step_ms:
            raise UsageError(
                f"--step {show_duration(self.step_ms)}: expected a time of which a day has a whole "
                "number, such as 5s, 15s, 30s or 1m"
            )
        if not 0 <= self.spread_ms < self.step_ms:
            raise UsageError(
                f"--jitter {show_duration(self.spread_ms)}: expected less than --step "
                f"{show_duration(self.step_ms)}, else samples would change places"
            )
        if not 2000 <= self.first_day.year < 2099:
            raise UsageError(f"--start {self.start}: expected a day from 2000-01-01 to 2098-12-31")
        if not re.fullmatch(r"[a-z0-9]([-a-z0-9.]{0,51}[a-z0-9])?", self.cluster):
            raise UsageError(
                f"--cluster {self.cluster!r}: expected lower-case letters, digits, - and ., at "
                "most 53"
            )
        if self.pods * self.days > MAX_POD_DAYS:
            raise UsageError(
                f"--pods {self.pods} over --days {self.days} does not fit memory: their product "
                f"may be {MAX_POD_DAYS:,}; take fewer pods or days (and more --hpas)"
            )
        if self.samples > MAX_SAMPLES:
            raise UsageError(
                f"that would be about {self.samples:,} samples, more than {MAX_SAMPLES:,}: take "
                "fewer HPAs, pods or days, or a longer step"
            )

    @property
    def first_day(self) -> date:
        """The first day (UsageError: `start` is none)."""
        try:
            return datetime.strptime(self.start, "%Y-%m-%d").date()
        except ValueError:
            raise UsageError(
                f"--start: expected a day such as 2026-10-05, got {self.start!r}"
            ) from None

    @property
    def spread_ms(self) -> int:
        """Most time by which a sample comes late."""
        if self.jitter_ms is not None:
            return self.jitter_ms
        return _JITTER_MS if self.step_ms >= 3 * _JITTER_MS else 0

    @property
    def steps(self) -> int:
        """Steps of a day."""
        return DAY_MS // self.step_ms

    @property
    def samples(self) -> int:
        """About how many rows the metric tables will have."""
        scrapes = self.hpas * self.pods * self.days * self.steps * (1.0 - self.gaps)
        per_scrape = self.containers + (_PODS_METRIC_SHARE if self.metrics == "mix" else 0.0)
        return round(scrapes * per_scrape)

    @property
    def bytes(self) -> int:
        """About how large the history will be."""
        sample = _SAMPLE_BYTES
        sample += _FETCHED_BYTES if self.late else 0.0
        sample += _SIDECAR_BYTES if self.containers > 1 else 0.0
        sample += _FINE_BYTES if self.unit_ms == 1 and self.spread_ms else 0.0
        lives = self.hpas * self.pods * (1 + 2 * self.days)
        return round(self.samples * sample) + lives * _POD_BYTES

    @property
    def digest(self) -> str:
        """Name of this fleet in 16 hexadecimal digits."""
        document: dict[str, Any] = self.to_json()
        document |= {"jitter_ms": self.spread_ms, "start": str(self.first_day)}
        text = json.dumps(document | {"generator": _GENERATOR}, sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()[:16]

    @property
    def unit_ms(self) -> int:
        """The grain of sample times: whole seconds, as the metrics API gives, where possible."""
        return 1 if self.step_ms % 1000 or self.spread_ms % 1000 else 1000
