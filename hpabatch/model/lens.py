"""Lens of a source: how the usage that a controller saw differs from what was recorded."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from hpabatch.model.objects.hpa import HPASpec
from hpabatch.model.plant import SCALE_ONE, Sight, signal_name
from hpabatch.model.times import show_duration

CPU: Final = "resource/cpu"
MEMORY: Final = "resource/memory"
USAGE: Final = (CPU, MEMORY)
"""Signals whose samples stand in one row: lag and smoothing of the two are one."""

LONGEST_MS: Final = 3_600_000
"""The longest lag, either way, and the longest smoothing."""

LEAST_SCALE: Final = 0.01
MOST_SCALE: Final = 100.0


@dataclass(frozen=True, slots=True)
class Lens:
    """What the controller saw of a signal's samples, from those that were recorded.

    A recorded sample counted `lag_ms` after its recorded time (before, if negative), as the mean of
    the pod's samples over the `smoothing_ms` up to it, times `scale`. `cluster` None: all clusters.
    `as_if`: of a scale that may as well be the targets', what it stands for.
    """

    signal: str
    cluster: str | None = None
    lag_ms: int = 0
    smoothing_ms: int = 0
    scale: float = 1.0
    place: str = field(default="", compare=False)
    as_if: str = field(default="", compare=False)

    @property
    def changes(self) -> bool:
        """Whether it changes anything."""
        return bool(self.lag_ms or self.smoothing_ms) or self.scale != 1

    @property
    def of_recording(self) -> Lens:
        """What is so of the recording itself: samples that came late count from when they were.

        The rest is between pods and the controller, and changes nothing of what pods used.
        """
        return replace(self, lag_ms=min(self.lag_ms, 0), smoothing_ms=0, scale=1.0)

    @property
    def sight(self) -> Sight:
        """How a controller that runs beside the pods sees them: nothing before its time."""
        return Sight(max(self.lag_ms, 0), self.smoothing_ms, round(self.scale * SCALE_ONE))

    def __str__(self) -> str:
        """Return the signal with what changes."""
        parts = [
            f"lag {show_duration(self.lag_ms)}" if self.lag_ms else "",
            f"smoothing {show_duration(self.smoothing_ms)}" if self.smoothing_ms else "",
            f"scale {self.scale:g}" if self.scale != 1 else "",
        ]
        where = f"{self.cluster}: " if self.cluster is not None else ""
        return f"{where}{self.signal} {', '.join(filter(None, parts)) or 'as recorded'}"


Lenses = Sequence[Lens]


def lens_of(lenses: Lenses, cluster: str, signal: str) -> Lens:
    """Return the lens of a cluster's signal, the last one that is of it; one that changes nothing.

    Of cpu and memory the one that is not stated has lag and smoothing of the other.
    """
    own = [lens for lens in lenses if lens.cluster in (None, cluster)]
    found = [lens for lens in own if lens.signal == signal]
    if found:
        return found[-1]
    other = [lens for lens in own if signal in USAGE and lens.signal in USAGE]
    return replace(other[-1], signal=signal, scale=1.0) if other else Lens(signal)


def lens_of_metric(lenses: Lenses, cluster: str, name: str) -> Lens:
    """Return the lens of a metric by the name of its signal (`model.plant.signal_name`).

    A container's usage is in the rows of its pod's; Object and External metrics have none.
    """
    kind, _, rest = name.partition("/")
    if kind == "container":
        return lens_of(lenses, cluster, f"resource/{rest.rpartition('/')[2]}")
    return lens_of(lenses if kind in ("resource", "pods") else (), cluster, name)


def lenses_of_spec(lenses: Lenses, cluster: str, spec: HPASpec) -> tuple[Lens, ...]:
    """Return the lenses that change what the metrics of a cluster's HPA are read from, each once.

    `spec` has its defaults, so a metric that is not written counts, too.
    """
    own = [lens_of_metric(lenses, cluster, signal_name(metric)) for metric in spec.metrics]
    return tuple(dict.fromkeys(lens for lens in own if lens.changes))


def disagreeing(lenses: Lenses) -> Lens | None:
    """Return a lens of memory whose lag or smoothing is not that of cpu; None: there is none."""
    clusters = dict.fromkeys([lens.cluster or "" for lens in lenses])
    for cluster in clusters:
        cpu, memory = (lens_of(lenses, cluster, signal) for signal in USAGE)
        if (cpu.lag_ms, cpu.smoothing_ms) != (memory.lag_ms, memory.smoothing_ms):
            return memory
    return None


def ratio_words(lens: Lens) -> str:
    """Return what is known of a source of which only the ratio of scale to targets is."""
    return f"{lens}, {lens.as_if or f'or all targets / {lens.scale:g}'}"


def ratios_words(ratios: Lenses, lenses: Lenses) -> list[str]:
    """Return the words of ratios, with whether they are among the lenses that are applied."""
    applied = [lens_of(lenses, one.cluster or "", one.signal).scale == one.scale for one in ratios]
    return [
        f"{ratio_words(one)} ({'applied' if done else 'not applied; --lens ratio applies it'})"
        for one, done in zip(ratios, applied, strict=True)
    ]


def words_of(lenses: Iterable[Lens]) -> str:
    """Return lenses as evidence holds them."""
    return "; ".join(str(lens) for lens in lenses if lens.changes) or "none"
