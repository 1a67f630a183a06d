"""Quota files: ResourceQuota objects in YAML or JSON, to `model.quota`.

Files may hold several documents, lists and other kinds of objects, as `kubectl get resourcequota -A
-o yaml` prints them. Notes name what cannot be judged.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from pathlib import Path
from typing import Final

from hpabatch.errors import UsageError
from hpabatch.inputs import document_kinds as kinds
from hpabatch.inputs.document_keys import ListOf, MapOf, Scalar, record_of
from hpabatch.inputs.documents import (
    Mistakes,
    MistakesError,
    Place,
    duplicate_keys,
    place_of,
    read_text,
    show,
)
from hpabatch.inputs.manifest_documents import (
    Document,
    DocumentError,
    expand,
    parse_documents,
    split_documents,
)
from hpabatch.model.quantity import Quantity
from hpabatch.model.quota import JUDGED, MATCHING_SCOPES, MILLI_UNITS, MOST, Limit, Quota

WHAT: Final = "quota file"
KIND: Final = "ResourceQuota"
_LARGEST: Final = Quantity(MOST // 1000)


@dataclass(frozen=True, slots=True)
class Quotas:
    """The quotas of some files, and sentences on what in them is not judged."""

    quotas: tuple[Quota, ...] = ()
    notes: tuple[str, ...] = ()


def read_quotas(paths: Sequence[str | Path], clusters: Sequence[str] = ()) -> Quotas:
    """Return the quotas of all files.

    The quotas of `CLUSTER=FILE` are for one of `clusters` alone; without it they are for every
    cluster that has the namespace.

    Raises:
        UsageError: all mistakes with their lines and keys; a quota that is given twice.
    """
    found = []
    for path in paths:
        cluster, file = file_of(path, clusters)
        source = f"{WHAT} {file}"
        quotas = quotas_of(read_text(file, source), source)
        own = tuple(replace(q, cluster=cluster) for q in quotas.quotas)
        found.append(replace(quotas, quotas=own))
    together = tuple(quota for part in found for quota in part.quotas)
    _check_twice(together)
    return Quotas(together, tuple(note for part in found for note in part.notes))


def file_of(text: str | Path, clusters: Sequence[str]) -> tuple[str | None, Path]:
    """Return the cluster, None for any, and the file of `[CLUSTER=]FILE`."""
    cluster, _, rest = str(text).partition("=")
    return (cluster, Path(rest)) if rest and cluster in clusters else (None, Path(text))


def quotas_of(text: str, source: str = WHAT) -> Quotas:
    """Return the quotas of a text; `source` is the name of the file in messages.

    Raises:
        MistakesError: all mistakes with their lines and keys, or not one ResourceQuota.
    """
    quotas, notes, mistakes = [], [], Mistakes()
    others: Counter[str] = Counter()
    for place, document in _objects(text, source, mistakes):
        assert isinstance(place.value, Mapping)
        kind = place.value.get("kind")
        if kind != KIND:
            others[kind if isinstance(kind, str) and kind else "(no kind)"] += 1
            continue
        mistakes.add(*duplicate_keys(document, source, place.offset, place.node))
        quota, told = _quota(place, mistakes)
        notes += told
        if quota is not None:
            quotas.append(quota)
    mistakes.refuse()
    if not quotas and not notes:
        kinds = ", ".join(sorted(others)) or "nothing"
        fix = "write one with `kubectl get resourcequota -A -o yaml`"
        raise MistakesError([f"expected a {KIND}, got {kinds} ({source}); {fix}"])
    if others:
        kinds = ", ".join(f"{count} {kind}" for kind, count in sorted(others.items()))
        notes.append(f"{source}: objects of other kinds are left: {kinds}")
    _check_twice(quotas)
    return Quotas(tuple(quotas), tuple(notes))


def _objects(text: str, source: str, mistakes: Mistakes) -> Iterator[tuple[Place, Document]]:
    """Yield each object of a text, with the document that it is in."""
    for piece, offset in split_documents(text):
        try:
            for document in parse_documents(piece):
                whole = place_of(document.value, document.node, source, offset)
                if document.value is not None and not isinstance(document.value, Mapping | list):
                    mistakes.add(whole.problem(f"expected a manifest, got {show(document.value)}"))
                for value, node in expand(document.value, document.node):
                    if isinstance(value, str):
                        mistakes.add(whole.problem(value))
                    else:
                        yield place_of(value, node or document.node, source, offset), document
        except DocumentError as error:
            mistakes.add(f"{source}: {error.describe(offset)}")


def _check_twice(quotas: Sequence[Quota]) -> None:
    """Refuse two quotas of one name, of which only one can be in a namespace (UsageError)."""
    seen: dict[tuple[str, str], list[Quota]] = {}
    for quota in quotas:
        before = seen.setdefault((quota.namespace, quota.name), [])
        for other in before:
            if None in (other.cluster, quota.cluster) or other.cluster == quota.cluster:
                raise UsageError(
                    f"expected the quota {quota.namespace}/{quota.name} once, got it twice "
                    f"({quota.place}; first at {other.place}); keep one (for several clusters: "
                    "--quota CLUSTER=FILE)"
                )
        before.append(quota)


def _quota(place: Place, mistakes: Mistakes) -> tuple[Quota | None, list[str]]:
    """Return the quota of an object, None where nothing of it can be judged, and notes."""
    before = len(mistakes.found)
    given = mistakes.tried(_OBJECT.read, place)
    selector = place.at("spec").at("scopeSelector") if given is not None else place
    chosen = (
        mistakes.tried(_SELECTOR.read, selector)
        if given and selector.value not in (None, {})
        else {}
    )
    if len(mistakes.found) > before:
        return None, []
    namespace, name = given["metadata"]["namespace"], given["metadata"]["name"]
    scopes = list(given["spec"].get("scopes", ()))
    scopes += [one["scopeName"] for one in chosen.get("matchExpressions", ())]
    amounts = {key: _amount(quantity, key) for key, quantity in given["spec"]["hard"]}
    title = f"{place}: quota {namespace}/{name}"
    apart = sorted(set(scopes) - MATCHING_SCOPES)
    if apart:
        return None, [
            f"{title} is not judged: it is only for pods of the scope {', '.join(apart)}, and "
            "which pods that are is not recorded"
        ]
    told = []
    if scopes:
        told.append(
            f"{title} has the scope {', '.join(scopes)}: every pod of an HPA is taken to be in it"
        )
    limits: dict[str, Limit] = {}
    for key, value in amounts.items():
        amount = JUDGED.get(key)
        if amount is not None and (amount not in limits or value < limits[amount].hard):
            limits[amount] = Limit(value, key, name)
    left = sorted(key for key in amounts if key not in JUDGED)
    if left:
        told.append(f"{title}: not judged: {', '.join(left)}")
    if not amounts:
        told.append(f"{title} limits nothing: spec.hard is empty")
    return Quota(namespace, name, limits, place=str(place)), told


def _amount(quantity: Quantity, key: str) -> int:
    """Return a limit: millicores or whole bytes and pods, rounded down; at most MOST."""
    if quantity.compare(_LARGEST) > 0:
        return MOST
    if quantity.sign() == 0:
        return 0  # whatever its exponent
    scale = 1000 if JUDGED.get(key) in MILLI_UNITS else 1
    return int(quantity.unscaled * Fraction(10) ** quantity.exponent * scale)


def _hard(value: object) -> Quantity:
    if not isinstance(value, str | int | float) or isinstance(value, bool):
        raise ValueError
    try:
        quantity = Quantity.parse(value)
    except ValueError:  # with upstream's regular expression for a reason
        raise ValueError from None
    if quantity.sign() < 0:
        raise ValueError
    return quantity


_HARD: Final = MapOf(
    Scalar("a quantity of 0 or more, such as 20 or 64Gi", _hard), "a mapping of limits",
    may_be_empty=True,
)  # fmt: skip
_SCOPES: Final = ListOf(kinds.text(), "a list of names", only_lists=True, least=0)
_EXPRESSION: Final = record_of({"scopeName": kinds.text()}, "scopeName", others=True)
_SELECTOR: Final = record_of(
    {"matchExpressions": ListOf(_EXPRESSION, "a list with scopeNames", only_lists=True, least=0)},
    "matchExpressions", others=True,
)  # fmt: skip
_NAMES: Final = {"name": kinds.text(), "namespace": kinds.text()}
_OBJECT: Final = record_of(
    {
        "metadata": record_of(_NAMES, *_NAMES, others=True),
        "spec": record_of({"hard": _HARD, "scopes": _SCOPES}, "hard", others=True),
    },
    "metadata", "spec", others=True,
)  # fmt: skip
