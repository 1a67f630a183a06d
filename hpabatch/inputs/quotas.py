"""Namespace quotas from manifests: the ResourceQuota objects of YAML or JSON files.

Read are the files as `kubectl get resourcequota -A -o yaml` prints them and as people write them:
several documents, lists, other kinds between them. What a quota holds that cannot be judged is
told in notes; what cannot be right is refused with its place.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from pathlib import Path
from typing import Final, NoReturn

from hpabatch.errors import UsageError
from hpabatch.history.files import open_regular
from hpabatch.inputs.documents import show
from hpabatch.inputs.kubernetes_yaml import end_line, start_line
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
MAX_BYTES: Final = 16 * 2**20
_LARGEST: Final = Quantity(MOST // 1000)


@dataclass(frozen=True, slots=True)
class Quotas:
    """The quotas of some files, and sentences on what in them is not judged."""

    quotas: tuple[Quota, ...] = ()
    notes: tuple[str, ...] = ()


def read_quotas(paths: Sequence[str | Path], clusters: Sequence[str] = ()) -> Quotas:
    """Return the quotas of all files.

    `CLUSTER=FILE` says that the quotas of a file are those of one of `clusters` alone; without it
    they are those of every cluster that has the namespace.

    Raises:
        UsageError: the file, the line and what is wrong there; a quota that is given twice.
    """
    found = []
    for path in paths:
        cluster, file = file_of(path, clusters)
        quotas = _read(file)
        own = tuple(replace(q, cluster=cluster) for q in quotas.quotas)
        found.append(replace(quotas, quotas=own))
    together = tuple(quota for part in found for quota in part.quotas)
    _check_twice(together)
    return Quotas(together, tuple(note for part in found for note in part.notes))


def file_of(text: str | Path, clusters: Sequence[str]) -> tuple[str | None, Path]:
    """Return the cluster, None for any, and the file of `[CLUSTER=]FILE`."""
    cluster, _, rest = str(text).partition("=")
    return (cluster, Path(rest)) if rest and cluster in clusters else (None, Path(text))


def _read(path: Path) -> Quotas:
    source = f"{WHAT} {path}"
    try:
        with open_regular(path) as stream:
            data = stream.read(MAX_BYTES + 1)
        text = data.decode("utf-8-sig")
    except (OSError, ValueError) as error:
        reason = (error.strerror if isinstance(error, OSError) else None) or "not UTF-8 text"
        raise UsageError(f"{source} cannot be read: {reason}; name another file") from None
    if len(data) > MAX_BYTES:
        raise UsageError(f"{source} is larger than {MAX_BYTES >> 20} MiB; split it")
    return parse_quotas(text, source)


def parse_quotas(text: str, source: str = WHAT) -> Quotas:
    """Return the quotas of a text; `source` is what messages call it.

    Raises:
        UsageError: the line and what is wrong there, or not one ResourceQuota.
    """
    quotas, notes = [], []
    others: Counter[str] = Counter()
    for value, place in _objects(text, source):
        kind = value.get("kind")
        if kind != KIND:
            others[kind if isinstance(kind, str) and kind else "(no kind)"] += 1
            continue
        quota, told = _Reading(value, place).quota()
        notes += told
        if quota is not None:
            quotas.append(quota)
    if not quotas and not notes:
        kinds = ", ".join(sorted(others)) or "nothing"
        raise UsageError(
            f"{source} holds no {KIND} (only {kinds}); write one with "
            "`kubectl get resourcequota -A -o yaml`"
        )
    if others:
        kinds = ", ".join(f"{count} {kind}" for kind, count in sorted(others.items()))
        notes.append(f"{source}: objects of other kinds are left: {kinds}")
    _check_twice(quotas)
    return Quotas(tuple(quotas), tuple(notes))


def _objects(text: str, source: str) -> Iterator[tuple[Mapping[str, object], str]]:
    """Yield each object of a text with its place."""
    for piece, offset in split_documents(text):
        try:
            for document in parse_documents(piece):
                yield from _expanded(document, source, offset)
        except DocumentError as error:
            raise UsageError(f"{source}: {error.describe(offset)}") from None


def _expanded(
    document: Document, source: str, offset: int
) -> Iterator[tuple[Mapping[str, object], str]]:
    if document.value is None:
        return
    if not isinstance(document.value, Mapping | list):
        line = start_line(document.node) + offset + 1
        raise UsageError(f"{source}, line {line}: {show(document.value)} is not a manifest")
    for value, node in expand(document.value, document.node):
        line = start_line(node or document.node)
        place = f"{source}, line {line + offset + 1}"
        if isinstance(value, str):
            raise UsageError(f"{place}: {value}")
        for key, again, _, first in document.duplicates:
            if value.get("kind") == KIND and line <= again <= end_line(node):
                raise UsageError(
                    f"{source}, line {again + offset + 1}: the key {key!r} stands twice, first in "
                    f"line {first + offset + 1}; keep one"
                )
        yield value, place


def _check_twice(quotas: Sequence[Quota]) -> None:
    """Refuse two quotas of one name, of which only one can be in a namespace (UsageError)."""
    seen: dict[tuple[str, str], list[Quota]] = {}
    for quota in quotas:
        before = seen.setdefault((quota.namespace, quota.name), [])
        for other in before:
            if None in (other.cluster, quota.cluster) or other.cluster == quota.cluster:
                raise UsageError(
                    f"{quota.place}: the quota {quota.namespace}/{quota.name} is given twice, "
                    f"first at {other.place}; keep one (of several clusters: --quota CLUSTER=FILE)"
                )
        before.append(quota)


class _Reading:
    """One ResourceQuota document that is being read."""

    def __init__(self, value: Mapping[str, object], place: str) -> None:
        self.value, self.place = value, place

    def quota(self) -> tuple[Quota | None, list[str]]:
        """Return the quota, None where nothing of it can be judged, and what is told of it."""
        metadata = self._mapping(self.value, "metadata")
        name, namespace = (self._text(metadata, key) for key in ("name", "namespace"))
        spec = self._mapping(self.value, "spec")
        hard = self._mapping(spec, "hard", "spec.hard")
        title = f"{self.place}: quota {namespace}/{name}"
        scopes = self._scopes(spec)
        apart = sorted(set(scopes) - MATCHING_SCOPES)
        if apart:
            return None, [
                f"{title} is not judged: it is only for pods of the scope {', '.join(apart)}, and "
                "which pods that are is not recorded"
            ]
        told = []
        if scopes:
            told.append(
                f"{title} has the scope {', '.join(scopes)}: every pod of an HPA is taken to "
                "be in it"
            )
        limits: dict[str, Limit] = {}
        for key, text in hard.items():
            value = self._amount(key, text)
            amount = JUDGED.get(key)
            if amount is not None and (amount not in limits or value < limits[amount].hard):
                limits[amount] = Limit(value, key, name)
        left = sorted(key for key in hard if key not in JUDGED)
        if left:
            told.append(f"{title}: not judged: {', '.join(left)}")
        if not hard:
            told.append(f"{title} limits nothing: spec.hard is empty")
        return Quota(namespace, name, limits, place=self.place), told

    def _refuse(self, problem: str) -> NoReturn:
        raise UsageError(f"{self.place}: {problem}")

    def _mapping(
        self, parent: Mapping[str, object], key: str, path: str = ""
    ) -> Mapping[str, object]:
        found = parent.get(key)
        if not isinstance(found, Mapping):
            what = "is missing" if found is None else f"is {show(found)}, not a mapping"
            self._refuse(f"{path or key} of the {KIND} {what}")
        return found

    def _text(self, metadata: Mapping[str, object], key: str) -> str:
        found = metadata.get(key)
        if not isinstance(found, str) or not found:
            what = "is missing" if found is None else f"is {show(found)}, not a name"
            hint = "; say which namespace it is for" if key == "namespace" else ""
            self._refuse(f"metadata.{key} of the {KIND} {what}{hint}")
        return found

    def _scopes(self, spec: Mapping[str, object]) -> list[str]:
        """Return the names of the scopes, those of the scopeSelector too."""
        scopes = spec.get("scopes") or []
        selector = spec.get("scopeSelector") or {}
        if not isinstance(scopes, list) or not all(isinstance(s, str) for s in scopes):
            self._refuse(f"spec.scopes is {show(scopes)}, not a list of names")
        expressions = selector.get("matchExpressions") if isinstance(selector, Mapping) else None
        if selector and not (
            isinstance(expressions, list)
            and all(isinstance(e, Mapping) and isinstance(e.get("scopeName"), str)
                    for e in expressions)
        ):  # fmt: skip
            self._refuse("spec.scopeSelector.matchExpressions is not a list with scopeNames")
        return [*scopes, *(e["scopeName"] for e in expressions or ())]

    def _amount(self, key: str, value: object) -> int:
        """Return a limit: millicores or whole bytes and pods, rounded down; at most MOST."""
        if not isinstance(value, str | int | float) or isinstance(value, bool):
            self._refuse(f"spec.hard[{key}] is {show(value)}, not a quantity such as 20 or 64Gi")
        try:
            quantity = Quantity.parse(value)
        except ValueError:
            self._refuse(f"spec.hard[{key}]: {show(value)} is not a quantity such as 20 or 64Gi")
        if quantity.sign() < 0:
            self._refuse(f"spec.hard[{key}]: {show(value)} is negative; a quota is 0 or more")
        if quantity.compare(_LARGEST) > 0:
            return MOST
        if quantity.sign() == 0:
            return 0  # whatever its exponent
        scale = 1000 if JUDGED.get(key) in MILLI_UNITS else 1
        return int(quantity.unscaled * Fraction(10) ** quantity.exponent * scale)
