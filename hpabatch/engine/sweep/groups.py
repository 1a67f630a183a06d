"""Groups of HPAs that share a setting: `--group label:tier=web`, `namespace`, `pattern:shop/*`."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from hpabatch.engine.fleet.candidates import Candidate
from hpabatch.engine.fleet.membership import label_map
from hpabatch.inputs import document_kinds as kinds
from hpabatch.inputs.document_kinds import Selector
from hpabatch.model.printable import counted
from hpabatch.model.selection import matches
from hpabatch.model.selectors import parse_selector
from hpabatch.model.suggestions import did_you_mean

_TOLD: Final = 3
_LISTED: Final = 20


@dataclass(frozen=True, slots=True)
class Unit:
    """HPAs that get one setting for all: their places in the sweep, ascending."""

    name: str
    members: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Grouping:
    """The units of a sweep, all that is wrong with the groups, and the HPAs that are in none.

    `left_out` are places in the sweep, ascending. With `complaints` the units are not to be used.
    """

    units: tuple[Unit, ...]
    complaints: tuple[str, ...] = ()
    left_out: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class GroupForm:
    """A form of `--group`, for the documentation; `read` gives the units (ValueError: it cannot).

    `read` gets what stands after the kind and its colon ("" for nothing), and the HPAs.
    """

    kind: str
    form: str
    meaning: str
    read: Callable[[str, Sequence[Candidate]], list[Unit]]


def units_of(groups: Sequence[str], chosen: Sequence[Candidate]) -> Grouping:
    """Return which HPAs share a setting; without groups each has its own.

    Nothing is raised: all that is wrong with all groups is in `complaints`, as sentences.
    """
    if not groups:
        alone = (Unit(f"{c.cluster}/{_named(c)}", (k,)) for k, c in enumerate(chosen))
        return Grouping(tuple(alone))
    units: list[Unit] = []
    complaints: list[str] = []
    for text in groups:
        try:
            kind, colon, rest = text.partition(":")
            form = _BY_KIND.get(kind.strip())
            if form is None:
                forms = ", ".join(known.form for known in GROUP_FORMS)
                hint = did_you_mean(kind, _BY_KIND)
                raise ValueError(f"{kind!r} is no kind of group{hint} ({forms})")
            if colon and not rest.strip():
                raise ValueError(f"nothing stands after the colon; write {form.form}")
            units += form.read(rest.strip(), chosen)
        except ValueError as error:
            complaints.append(f"--group {text}: {error}")
    complaints += _twice_named(units)
    complaints += _in_two(units, chosen)
    taken = {member for unit in units for member in unit.members}
    left_out = tuple(k for k in range(len(chosen)) if k not in taken)
    return Grouping(tuple(units), tuple(complaints), left_out)


def _by_label(text: str, chosen: Sequence[Candidate]) -> list[Unit]:
    """Return a unit of what a selector takes, or of a bare label one for each of its values."""
    if not text:
        raise ValueError("which label? write label:tier=web, or label:tier for a group per value")
    try:
        selector = parse_selector(text)
    except ValueError as error:
        raise ValueError(f"{text!r} is not a label selector: {error}") from None
    found: dict[str, list[int]] = {}
    is_bare = len(selector.requirements) == 1 and selector.requirements[0].operator == "exists"
    for k, candidate in enumerate(chosen):
        labels = label_map(candidate.labels)
        if selector.matches(labels):
            own = f"{text}={labels[text]}" if is_bare else text
            found.setdefault(f"label:{own}", []).append(k)
    if not found:
        names = sorted({key for candidate in chosen for key in label_map(candidate.labels)})
        there = f"their labels are {_some(names)}" if names else "they have no labels"
        raise ValueError(f"it is for none of the {counted(len(chosen), 'HPA')}; {there}")
    return _units(found)


def _by_namespace(text: str, chosen: Sequence[Candidate]) -> list[Unit]:
    """Return a unit of the namespaces that a glob takes, or one for each, over all clusters."""
    found: dict[str, list[int]] = {}
    for k, candidate in enumerate(chosen):
        if not text or matches(text, candidate.namespace):
            found.setdefault(f"namespace:{text or candidate.namespace}", []).append(k)
    if not found:
        names = sorted({candidate.namespace for candidate in chosen})
        raise ValueError(
            f"it is for none of the {counted(len(chosen), 'HPA')}{did_you_mean(text, names)} "
            f"(namespaces: {_some(names)})"
        )
    return _units(found)


def _by_pattern(text: str, chosen: Sequence[Candidate]) -> list[Unit]:
    if not text:
        raise ValueError("which HPAs? write pattern:shop/*-api")
    found: set[int] = set()
    for glob in text.split(","):
        try:
            kinds.HPA_GLOB.parse(glob)
        except ValueError as error:
            raise ValueError(str(error) or f"{glob!r} is not {kinds.HPA_GLOB.wants}") from None
        takes = Selector((glob,)).takes_name
        theirs = [k for k, c in enumerate(chosen) if takes(c.cluster, c.namespace, c.name)]
        if not theirs:
            such = f", such as {_named(chosen[0])}" if chosen else ""
            raise ValueError(f"{glob} is for none of the {counted(len(chosen), 'HPA')}{such}")
        found.update(theirs)
    return _units({f"pattern:{text}": sorted(found)})


def _fleet(text: str, chosen: Sequence[Candidate]) -> list[Unit]:
    if text:
        raise ValueError("fleet is all HPAs; nothing stands after it")
    if not chosen:
        raise ValueError("there are no HPAs")
    return [Unit("fleet", tuple(range(len(chosen))))]


GROUP_FORMS: Final = (
    GroupForm("label", "label:tier=web", "all HPAs with that label; any selector may stand there, "
              "such as `label:tier in (web, api),!canary`. `label:tier`, without a value, makes a "
              "group of each value", _by_label),
    GroupForm("namespace", "namespace:shop", "all HPAs of that namespace (`*` and `?` are wild); "
              "`namespace` makes a group of each", _by_namespace),
    GroupForm("pattern", "pattern:shop/*-api", "all HPAs whose namespace/name, or "
              "cluster/namespace/name, is like that; or like one of several, with commas between",
              _by_pattern),
    GroupForm("fleet", "fleet", "all HPAs of the sweep", _fleet),
)  # fmt: skip
"""Forms of `--group`."""

_BY_KIND: Final = {form.kind: form for form in GROUP_FORMS}


def _some(names: Sequence[str]) -> str:
    return ", ".join(names[:_LISTED]) + (", …" if len(names) > _LISTED else "")


def _units(found: dict[str, list[int]]) -> list[Unit]:
    return [Unit(name, tuple(found[name])) for name in sorted(found)]


def _twice_named(units: Sequence[Unit]) -> Iterator[str]:
    names = [unit.name for unit in units]
    for name in dict.fromkeys(names):
        if names.count(name) > 1:
            yield f"the group {name} is there {names.count(name)} times; give each another name"


def _in_two(units: Sequence[Unit], chosen: Sequence[Candidate]) -> Iterator[str]:
    """Yield a sentence for every two groups that share HPAs."""
    shared: dict[tuple[str, str], dict[int, None]] = {}
    first: dict[int, str] = {}
    for unit in units:
        for member in unit.members:
            own = first.setdefault(member, unit.name)
            if own != unit.name:
                shared.setdefault((own, unit.name), {})[member] = None
    for (one, other), found in shared.items():
        members = list(found)
        names = ", ".join(_named(chosen[k]) for k in members[:_TOLD])
        more = f" and {len(members) - _TOLD} more" if len(members) > _TOLD else ""
        yield (
            f"{names}{more} would be in two groups, {one} and {other}; an HPA gets one setting, so "
            "narrow one of them"
        )


def _named(candidate: Candidate) -> str:
    return f"{candidate.namespace}/{candidate.name}"
