"""HPAs that the entries of a scenario or plant file apply to."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Protocol, TypeVar

import numpy as np
import polars as pl
from numpy.typing import NDArray

from hpabatch.engine.fleet.candidates import Candidate, candidate_frame
from hpabatch.errors import UsageError
from hpabatch.history.expressions.conditions import condition_on, is_true, quoted
from hpabatch.inputs.document_kinds import Selector
from hpabatch.inputs.lenses import Lens
from hpabatch.model.plant import signal_name
from hpabatch.model.printable import counted
from hpabatch.model.selection import matches

# What any workload may have, whatever its HPA measures.
_USUAL_SIGNALS = ("resource/cpu", "resource/memory")


class Selecting(Protocol):
    """An entry with a selector: a step of a scenario, an entry of a plant file."""

    @property
    def selector(self) -> Selector:
        """For which HPAs it is."""


Entry = TypeVar("Entry", bound=Selecting)


def entries_of(
    entries: Sequence[Entry], candidates: Sequence[Candidate]
) -> list[tuple[Entry, ...]]:
    """Return the entries for each candidate, in their order; equal ones are one object.

    Raises:
        UsageError: a condition is not one on the candidates' columns, or an entry is for none of
            them; the message names its place.
    """
    if not candidates:
        return []
    if not entries:
        return [()] * len(candidates)
    frame = candidate_frame(candidates)
    chosen = np.stack([_mask(entry.selector, candidates, frame) for entry in entries])
    made: dict[bytes, tuple[Entry, ...]] = {}
    found = []
    for column in chosen.T:
        key = column.tobytes()
        if key not in made:
            made[key] = tuple(e for e, is_for in zip(entries, column, strict=True) if is_for)
        found.append(made[key])
    return found


def _mask(
    selector: Selector, candidates: Sequence[Candidate], frame: pl.DataFrame
) -> NDArray[np.bool_]:
    """Return which candidates a selector takes, shape (candidates,)."""
    mask = np.array([selector.takes_name(*c.key) for c in candidates])
    if not mask.any():
        raise UsageError(
            f"{selector.place}: {', '.join(selector.hpas)} matches none of "
            f"{counted(len(candidates), 'HPA')}, such as "
            f"{candidates[0].namespace}/{candidates[0].name}"
        )
    if selector.where is None:
        return mask
    told = f"{selector.place}: {quoted(selector.where)}"
    mask &= is_true(frame, condition_on(selector.where, frame.schema, told), told).to_numpy()
    if not mask.any():
        both = " where hpa matches" if selector.hpas else ""
        raise UsageError(
            f"{told} is true for none of {counted(len(candidates), 'HPA')}{both}; widen it"
        )
    return mask


def check_signals(globs: Iterable[tuple[str, str]], candidates: Sequence[Candidate]) -> None:
    """Refuse globs of signals that none of the HPAs they are for can have.

    `globs` are (glob, its place), of one entry; `candidates` are the HPAs that it is for. An HPA
    can have the signals of its metrics, cpu and memory.

    Raises:
        UsageError: such a glob, with the signals that there are.
    """
    wanted = list(globs)
    if not wanted:
        return
    known = {
        signal_name(metric): None
        for candidate in candidates
        for period in candidate.periods
        for metric in period.spec.metrics
    } | dict.fromkeys(_USUAL_SIGNALS)
    for glob, place in wanted:
        if not any(matches(glob, name) for name in known):
            some = sorted(known)[:10]
            more = ", …" if len(known) > len(some) else ""
            raise UsageError(
                f"{place}: no HPA that this is for has a signal {glob}; there are "
                f"{', '.join(some)}{more}"
            )


def with_others(candidates: Sequence[Candidate], everyone: Sequence[Candidate]) -> list[Candidate]:
    """Return candidates, and after them those of everyone that are not among them (by name)."""
    names = {c.key for c in candidates}
    others = [c for c in everyone if c.key not in names]
    return [*candidates, *others]


def check_lenses(lenses: Iterable[Lens], candidates: Sequence[Candidate]) -> None:
    """Refuse lenses of clusters without an HPA, and of metrics that no HPA can have.

    Raises:
        UsageError: such a lens, with the clusters or signals that there are.
    """
    for lens in lenses:
        own = [c for c in candidates if lens.cluster in (None, c.cluster)]
        if not own:
            known = ", ".join(sorted({c.cluster for c in candidates})[:10])
            raise UsageError(f"{lens.place}: no HPA is of cluster {lens.cluster}; there is {known}")
        check_signals([(lens.signal, lens.place)], own)
