"""Selection of HPAs: by name, namespace or condition, and by the entries of a file."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Protocol, TypeVar

import numpy as np
import polars as pl
from numpy.typing import NDArray

from hpabatch.engine.fleet.candidates import Candidate, Skipped, candidate_frame
from hpabatch.engine.fleet.request import ChosenHpas
from hpabatch.errors import UsageError
from hpabatch.model.plant import signal_name
from hpabatch.model.printable import counted
from hpabatch.model.selection import matches
from hpabatch.model.suggestions import near_paths

if TYPE_CHECKING:  # (the language of conditions takes a while to import)
    from hpabatch.inputs.document_kinds import Selector
    from hpabatch.inputs.lenses import Lens

_KEY = ("cluster", "namespace", "hpa")
_NEAR = 3  # names that a message offers
Key = tuple[str, ...]


class Selection:
    """A function from the frame of candidates to the rows that are meant.

    Attributes:
        condition: the same as an expression on the candidates' columns, for HPAs of which no more
            than the name is known.
    """

    def __init__(self, request: ChosenHpas) -> None:
        """Check the condition and the form of the names (UsageError: one of them is wrong)."""
        self.names, self.namespaces = request.names, request.namespace
        self._found: list[Key] = []
        self._known: list[Key] = []
        self._where: pl.Expr | None = None
        if request.where is not None:
            from hpabatch.history.expressions.conditions import condition_on, quoted

            self._told = f"--where {quoted(request.where)}"
            self._where = condition_on(request.where, candidate_frame([]).schema, self._told)
        parts = [] if self._where is None else [self._where]
        if self.namespaces:
            parts.append(pl.col("namespace").is_in(self.namespaces))
        if self.names:
            parts.append(pl.any_horizontal([_named(name) for name in self.names]))
        self.condition: pl.Expr = pl.all_horizontal(parts) if parts else pl.lit(value=True)

    def __call__(self, candidates: pl.DataFrame) -> pl.DataFrame:
        """Return the candidates that are meant.

        Raises:
            UsageError: the condition fails, or is true for none.
        """
        self._known = _keys(candidates)
        kept = candidates
        if self.namespaces:
            kept = kept.filter(pl.col("namespace").is_in(self.namespaces))
        if self._where is not None:
            from hpabatch.history.expressions.conditions import is_true

            # (of these only: a condition may fail on other rows)
            before, kept = kept, kept.filter(is_true(kept, self._where, self._told))
            if kept.is_empty() and not before.is_empty() and not self.names:
                raise UsageError(
                    f"{self._told} is true for none of {counted(before.height, 'HPA')}; widen it"
                )
        if self.names:
            kept = kept.filter(pl.any_horizontal([_named(name) for name in self.names]))
        self._found = _keys(kept)
        return kept

    def check(self, skipped: Sequence[Skipped]) -> None:
        """Refuse a namespace or a name of which there is no HPA, replayed or `skipped`.

        Raises:
            UsageError: the name, and what there is instead.
        """
        there = [*self._found, *(s.key for s in skipped)]
        for namespace in self.namespaces:
            if not any(key[1] == namespace for key in there):
                known = sorted({key[1] for key in self._known})
                if namespace not in known:
                    raise UsageError(
                        f"-n {namespace}: there is no HPA of that namespace; namespaces: "
                        f"{', '.join(known)}"
                    )
        for name in self.names:
            if not any(_is_named(key, name) for key in there):
                raise UsageError(f"{name}: {self._instead_of(name)}")

    def _instead_of(self, name: str) -> str:
        """Return why there is nothing of a name, and the names that are like it."""
        if any(_is_named(key, name) for key in self._known):
            return "not among the HPAs that -n and --where leave; change one of them"
        parts = min(name.count("/") + 1, len(_KEY))
        known = sorted({"/".join(key[-max(parts, 2) :]) for key in self._known})
        if not known:
            return "there is no HPA at all"
        if near := near_paths(name, known, _NEAR):
            return f"there is no such HPA; did you mean {', '.join(near)}?"
        return f"there is no such HPA; there is {', '.join(known[:_NEAR])}"


def selection_of(request: ChosenHpas) -> Selection | None:
    """Return the selection that a request states; None: all HPAs."""
    stated = request.names or request.namespace or request.where is not None
    return Selection(request) if stated else None


def _named(name: str) -> pl.Expr:
    parts = _parts(name)
    columns = _KEY[-len(parts) :]
    return pl.all_horizontal(
        [pl.col(column) == pl.lit(part) for column, part in zip(columns, parts, strict=True)]
    )


def _is_named(key: Key, name: str) -> bool:
    parts = _parts(name)
    return list(key[-len(parts) :]) == parts


def _parts(name: str) -> list[str]:
    """Return the parts of a name; slashes before NAMESPACE/HPA are those of a cluster's name."""
    return name.rsplit("/", len(_KEY) - 1)


def _keys(candidates: pl.DataFrame) -> list[Key]:
    return list(candidates.select(_KEY).iter_rows())


# ---- entries of files ----------------------------------------------------------------------------

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
    from hpabatch.history.expressions.conditions import condition_on, is_true, quoted

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
