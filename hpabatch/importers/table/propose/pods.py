"""Names of pods: the workload in them, by the suffixes that Kubernetes' controllers give."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import polars as pl

from hpabatch.importers.table.propose.columns import Column

# apimachinery's util/rand.SafeEncodeString: no vowels, no 0, 1, 3; older hashes are decimal.
_SAFE: Final = "[b-df-hj-np-tv-xz0-9]"
_HASH: Final = f"-{_SAFE}{{6,10}}-{_SAFE}{{5}}"
_SUFFIX: Final = f"-{_SAFE}{{5}}"
_ORDINAL: Final = "-[0-9]{1,4}"
# Hashes that people made up: letters and digits, a digit at least in one of the two parts.
_LOOSE: Final = "-[0-9a-z]{3,10}-[0-9a-z]{3,5}"
_FORMS: Final = (
    ("Deployment", _HASH),
    ("StatefulSet", _ORDINAL),
    ("DaemonSet", _SUFFIX),
    ("Deployment", _LOOSE),
)
_LEAST: Final = 0.8


@dataclass(frozen=True, slots=True)
class PodNames:
    """The workload and kind in the names of pods.

    `kinds` are kinds of workloads with the pattern of their pods' endings; the first that fits
    counts.
    """

    pattern: str
    kinds: tuple[tuple[str, str], ...]
    examples: tuple[tuple[str, str], ...]

    @property
    def hashed(self) -> bool:
        """Whether a Deployment's hash is in names: what stands before it is surely its name."""
        return any(ending == _HASH for _, ending in self.kinds)


def read_pod_names(column: Column) -> PodNames | None:
    """Return how workloads are named in a column of pods; None: its names have no such suffix."""
    names = column.values.drop_nulls().cast(pl.String, strict=False).unique().sort()
    left = names
    forms: list[tuple[int, str, str]] = []
    for kind, form in _FORMS:
        mask = left.str.contains(f"^.+{form}$")
        count = int(mask.sum())
        if count and (form != _LOOSE or (not forms and _digits(left.filter(mask)))):
            forms.append((count, kind, form))
            left = left.filter(~mask)
    if not names.len() or left.len() > (1 - _LEAST) * names.len():
        return None
    # The order counts, in the pattern and among the kinds: a suffix also ends a hash with one.
    found = [form for _, _, form in forms]
    ending = found[0] if len(found) == 1 else f"(?:{'|'.join(found)})"
    pattern = f"^(.+?){ending}$" if not left.len() else f"^(.+?)(?:{'|'.join(found)})?$"
    return PodNames(
        pattern,
        tuple((kind, form) for _, kind, form in forms),
        _examples(names, pattern),
    )


def looks_like_pods(column: Column) -> bool:
    """Return whether most values of a column end as the pods of a Deployment do."""
    return column.share(f"^[a-z].*{_HASH}$") >= _LEAST


def _digits(names: pl.Series) -> bool:
    share = names.str.contains(r"-[a-z]*[0-9][0-9a-z]*(-[0-9a-z]{3,5})?$").mean()
    return isinstance(share, float) and share >= _LEAST


def _examples(names: pl.Series, pattern: str) -> tuple[tuple[str, str], ...]:
    frame = pl.DataFrame({"pod": names, "workload": names.str.extract(pattern, 1)})
    first = frame.drop_nulls().unique("workload", keep="first", maintain_order=True).head(2)
    return tuple(first.select("workload", "pod").rows())
