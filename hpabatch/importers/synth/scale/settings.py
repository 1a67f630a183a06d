"""What a synthetic fleet is asked to be, how large that gets, and its random streams."""

from __future__ import annotations

import hashlib
import json
import re
from dataclasses import asdict, dataclass
from datetime import date
from enum import IntEnum
from typing import Any

import numpy as np

from hpabatch.errors import UsageError

DAY_MS = 86_400_000
DAY_S = 86_400
HPAS_PER_NAMESPACE = 25

MAX_HPAS = 100_000
MAX_PODS = 5_000
MAX_DAYS = 366
MAX_CONTAINERS = 9
MAX_SAMPLES = 10**12
MIN_STEP_MS = 1_000
MAX_STEP_MS = 3_600_000
# The lives of a workload's pods are played at once and stay in memory, about 1 kB each.
MAX_POD_DAYS = 100_000

METRICS = ("cpu", "mix")
"""Which metrics the HPAs have: cpu utilization only, or a mix of all types."""

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


class Purpose(IntEnum):
    """What a random stream is for; numbers are part of the data and never change."""

    profile = 1
    demand = 2
    trouble = 3
    lives = 4
    traits = 5
    usage = 6
    custom = 7
    signal = 8


@dataclass(frozen=True, slots=True)
class FleetSettings:
    """A synthetic fleet: its size, span, faults and seed.

    Attributes:
        hpas: how many HPAs, each with a Deployment of its own.
        pods: about how many pods a Deployment has on average.
        days: how many UTC days from `start`.
        step_ms: from one sample of a pod to the next; divides the day.
        metrics: "cpu" or "mix".
        gaps: share of the samples that are lost, half of them in runs.
        late: share of the samples that are fetched one to four steps late; 0: `fetched_at` is null.
        jitter_ms: a sample comes up to this much later than its step says.
        containers: containers per pod, the first of them the app.
        cluster: name of the cluster; several get the suffixes -1, -2, ….
        clusters: how many clusters the namespaces are dealt to.
    """

    hpas: int = 100
    pods: int = 20
    days: int = 1
    step_ms: int = 15_000
    seed: int = 7
    start: date = date(2026, 10, 5)
    metrics: str = "cpu"
    gaps: float = 0.002
    late: float = 0.0
    jitter_ms: int = 1_000
    containers: int = 1
    cluster: str = "synthetic"
    clusters: int = 1

    def check(self) -> None:
        """Refuse what cannot be made.

        Raises:
            UsageError: which option, why, and what is possible.
        """
        for option, value, low, high in (
            ("--hpas", self.hpas, 1, MAX_HPAS),
            ("--pods", self.pods, 1, MAX_PODS),
            ("--days", self.days, 1, MAX_DAYS),
            ("--containers", self.containers, 1, MAX_CONTAINERS),
            ("--clusters", self.clusters, 1, 1_000),
            ("--seed", self.seed, 0, 2**63 - 1),
        ):
            if not low <= value <= high:
                raise UsageError(f"{option} {value} is out of range: {low} to {high} is possible")
        self._check_times()
        for option, share, high_share in (("--gaps", self.gaps, 0.9), ("--late", self.late, 1.0)):
            if not 0.0 <= share <= high_share:
                raise UsageError(
                    f"{option} {share:g} is not a share of the samples: 0 to {high_share:g} is "
                    "possible, such as 0.01 for one in a hundred"
                )
        if self.metrics not in METRICS:
            raise UsageError(f"--metrics {self.metrics!r} is unknown: {' or '.join(METRICS)}")
        if not re.fullmatch(r"[a-z0-9]([-a-z0-9.]{0,51}[a-z0-9])?", self.cluster):
            raise UsageError(
                f"--cluster {self.cluster!r} is not a name: lower-case letters, digits, - and ., "
                "at most 53"
            )
        self._check_size()

    def _check_times(self) -> None:
        if not MIN_STEP_MS <= self.step_ms <= MAX_STEP_MS or DAY_MS % self.step_ms:
            raise UsageError(
                f"--step {self.step_ms / 1000:g}s is not possible: a day must be a whole number of "
                "steps of 1s to 1h, such as 5s, 15s, 30s or 1m"
            )
        if not 0 <= self.jitter_ms < self.step_ms:
            raise UsageError(
                f"--jitter {self.jitter_ms / 1000:g}s is not possible: 0s to less than --step "
                f"{self.step_ms / 1000:g}s is, else samples would change places"
            )
        if not 2000 <= self.start.year < 2099:
            raise UsageError(
                f"--start {self.start} is out of range: 2000-01-01 to 2098-12-31 is possible"
            )

    def _check_size(self) -> None:
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
        sample += _FINE_BYTES if self.unit_ms == 1 and self.jitter_ms else 0.0
        lives = self.hpas * self.pods * (1 + 2 * self.days)
        return round(self.samples * sample) + lives * _POD_BYTES

    @property
    def digest(self) -> str:
        """Name these settings in 16 hexadecimal digits."""
        document: dict[str, Any] = asdict(self) | {"generator": _GENERATOR}
        text = json.dumps(document, sort_keys=True, default=str)
        return hashlib.sha256(text.encode()).hexdigest()[:16]

    @property
    def unit_ms(self) -> int:
        """The grain of sample times: whole seconds, as the metrics API gives, where possible."""
        return 1 if self.step_ms % 1000 or self.jitter_ms % 1000 else 1000


class Streams:
    """All random numbers of one workload, each at an address of its own.

    A Philox generator is a function of key and counter. The key comes from the seed and the
    workload's name, the counter from the purpose, a number and the day. So what is drawn for one
    pod and day depends on no other draw, whatever is generated before, beside or not at all.
    """

    def __init__(self, seed: int, identity: str) -> None:
        """Derive the key of a workload, e.g. `synthetic/ns-0001/app-00025`."""
        digest = hashlib.sha256(identity.encode()).digest()
        words = [int.from_bytes(digest[i : i + 4], "little") for i in range(0, 16, 4)]
        low, high = np.random.SeedSequence([seed, *words]).generate_state(2, np.uint64)
        self._key = int(low) | int(high) << 64

    def open(self, purpose: Purpose, day: int = 0, number: int = 0) -> np.random.Generator:
        """Return the generator at an address."""
        counter = (day << 192) | (number << 128) | (int(purpose) << 64)
        return np.random.Generator(np.random.Philox(key=self._key, counter=counter))
