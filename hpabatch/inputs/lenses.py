"""Lens files: how recorded usage differs from what a controller saw, YAML to `model.lens`."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

from hpabatch.inputs import document_kinds as kinds
from hpabatch.inputs.document_keys import Built, Key, ListOf, Scalar, Shape
from hpabatch.inputs.documents import Place, read_document
from hpabatch.model import lens as bounds
from hpabatch.model.lens import Lens, disagreeing
from hpabatch.model.times import parse_duration_ms

WHAT: Final = "lens file"
_LAG_WANTS: Final = "a duration such as 30s (seen later) or -30s (seen earlier), at most 1h"


def _lag(value: object) -> int:
    is_zero = value == 0 and isinstance(value, int | float) and not isinstance(value, bool)
    text = "0s" if is_zero else value if isinstance(value, str) else ""
    try:
        lag_ms = parse_duration_ms(text.removeprefix("-"))
    except ValueError:
        raise ValueError from None  # (what is wanted stands in the message)
    if lag_ms > bounds.LONGEST_MS:
        raise ValueError
    return -lag_ms if text.startswith("-") else lag_ms


def _signal(value: object) -> str:
    if value in bounds.USAGE or (isinstance(value, str) and value.startswith("pods/")):
        return str(value)
    raise ValueError


LENS: Final = Shape(
    "Lenses",
    "One entry per source: a signal, of one cluster or of all. Of several the last one counts.",
    (
        Key("signal", Scalar("resource/cpu, resource/memory or pods/METRIC", _signal),
            "whose samples", field="signal", required=True),
        Key("cluster", kinds.text("the name of a cluster"), "only in this cluster",
            field="cluster", default="all"),
        Key("lag", Scalar(_LAG_WANTS, _lag),
            "how long after its recorded time a sample counts", field="lag_ms", default="0s"),
        Key("smoothing", kinds.duration(0, bounds.LONGEST_MS),
            "how long a time a sample is the mean of", field="smoothing_ms", default="0s"),
        Key("scale", kinds.number(bounds.LEAST_SCALE, bounds.MOST_SCALE),
            "factor of recorded values", field="scale", default="1"),
    ),
)  # fmt: skip


def _lens(place: Place, given: dict[str, Any]) -> Lens:
    return Lens(**given, place=str(place))


_DOCUMENT = ListOf(Built(LENS, _lens), "a lens, or a list of lenses, each after a dash", 10_000)


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
            f"expected one lag and one smoothing of {' and '.join(bounds.USAGE)}, whose samples "
            f"stand in one row; got others for {odd.signal}",
            "give both the same, or leave one of the two out",
        )
    return found
