"""Lenses: how the usage that a controller saw differs from what was recorded; their files."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final

from hpabatch.inputs import document_kinds as kinds
from hpabatch.inputs.document_keys import ListOf, Record, Scalar, key
from hpabatch.inputs.documents import Place, read_document
from hpabatch.model.objects.hpa import HPASpec
from hpabatch.model.plant import SCALE_ONE, Sight, signal_name
from hpabatch.model.times import parse_duration_ms, show_duration

WHAT: Final = "lens file"
CPU: Final = "resource/cpu"
MEMORY: Final = "resource/memory"
USAGE: Final = (CPU, MEMORY)
"""Signals whose samples stand in one row: lag and smoothing of the two are one."""

LONGEST_MS: Final = 3_600_000
"""The longest lag, either way, and the longest smoothing."""

LEAST_SCALE: Final = 0.01
MOST_SCALE: Final = 100.0
_LAG_WANTS: Final = "a duration such as 30s (seen later) or -30s (seen earlier), at most 1h"


def _lag(value: object) -> int:
    is_zero = value == 0 and isinstance(value, int | float) and not isinstance(value, bool)
    text = "0s" if is_zero else value if isinstance(value, str) else ""
    try:
        lag_ms = parse_duration_ms(text.removeprefix("-"))
    except ValueError:
        raise ValueError from None  # (what is wanted stands in the message)
    if lag_ms > LONGEST_MS:
        raise ValueError
    return -lag_ms if text.startswith("-") else lag_ms


def _signal(value: object) -> str:
    if value in USAGE or (isinstance(value, str) and value.startswith("pods/")):
        return str(value)
    raise ValueError


@dataclass(frozen=True, slots=True)
class Lens:
    """What the controller saw of a signal's samples, from those that were recorded.

    A recorded sample counted `lag_ms` after its recorded time (before, if negative), as the mean of
    the pod's samples over the `smoothing_ms` up to it, times `scale`. `cluster` None: all clusters.
    `as_if`: of a scale that may as well be the targets', what it stands for.
    """

    signal: str = key(
        "signal", Scalar("resource/cpu, resource/memory or pods/METRIC", _signal), "whose samples"
    )
    cluster: str | None = key(
        "cluster", kinds.text("the name of a cluster"), "only in this cluster", None, "all"
    )
    lag_ms: int = key(
        "lag", Scalar(_LAG_WANTS, _lag), "how long after its recorded time a sample counts", 0, "0s"
    )
    smoothing_ms: int = key(
        "smoothing", kinds.duration(0, LONGEST_MS), "how long a time a sample is the mean of", 0,
        "0s",
    )  # fmt: skip
    scale: float = key(
        "scale", kinds.number(LEAST_SCALE, MOST_SCALE), "factor of recorded values", 1.0, "1"
    )
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


LENS: Final = Record(
    Lens,
    "Lenses",
    "One entry per source: a signal, of one cluster or of all. Of several the last one counts.",
)
_DOCUMENT = ListOf(LENS, "a lens, or a list of lenses, each after a dash", 10_000)


def read_lens_file(path: Path | str) -> tuple[Lens, ...]:
    """Return the lenses of a file.

    Raises:
        UsageError: the file cannot be read; all mistakes in it with their lines and keys.
    """
    return lenses_of(read_document(path, WHAT))


def lenses_of(document: Place) -> tuple[Lens, ...]:
    """Return the lenses of a document.

    Raises:
        MistakesError: all mistakes in it.
    """
    found: tuple[Lens, ...] = tuple(_DOCUMENT.read(document))
    odd = disagreeing(found)
    if odd is not None:
        document.refuse(
            f"expected one lag and one smoothing of {' and '.join(USAGE)}, whose samples "
            f"stand in one row; got others for {odd.signal}",
            "give both the same, or leave one of the two out",
        )
    return found
