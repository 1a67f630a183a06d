"""Mapping files: PromQL for metrics whose server's configuration is not at hand."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from typing import Any, Final, Literal

from hpabatch.importers.prometheus.client.queries import LABEL_NAME
from hpabatch.importers.prometheus.metrics.queries import PODS_HOLE
from hpabatch.inputs import document_kinds as kinds
from hpabatch.inputs.document_keys import ListOf, Record, Scalar, key
from hpabatch.inputs.documents import Mistakes, Place, show
from hpabatch.model.objects.field_errors import go_quote
from hpabatch.model.selectors import Requirement, parse_selector
from hpabatch.model.suggestions import did_you_mean

TOP_KEY: Final = "metrics"
"""The key by which a mapping file is recognized."""


def _selector(value: object) -> str:
    if not isinstance(value, str):
        raise ValueError
    try:
        return str(parse_selector(value))
    except ValueError as error:
        raise ValueError(f"expected {_SELECTOR.wants}, got {show(value)}: {error}") from None


_SELECTOR: Final = Scalar("a label selector such as queue=orders", _selector)
_GLOBS: Final = ListOf(kinds.text("a name"), "a name or a list of names")

Kind = Literal["pods", "object", "external"]
_PLACEHOLDERS: Final = {
    "pods": ("namespace", "pods", "selector", "cluster"),
    "object": ("namespace", "object", "selector", "cluster"),
    "external": ("namespace", "selector", "cluster"),
}
_HOLE = re.compile(r"\$([a-zA-Z_]\w*)", re.ASCII)
_LABEL: Final = re.compile(r"[a-zA-Z_][a-zA-Z0-9_]*")


@dataclass(frozen=True, slots=True)
class MappedMetric:
    """An entry of `metrics`.

    Attributes:
        place: file and path, for messages.
        namespaces: globs; none: every namespace.
        selector: only for metrics with this selector, in Kubernetes' form; None: for any.
        object_kind, object_name: only for such objects; "": for any (the name is a glob).
        label: whose value is the pod's or object's name; "": the one series is the object's.
    """

    kind: Kind = key("type", kinds.word("pods", "object", "external"))
    name: str = key("name", kinds.text())
    query: str = key("query", Scalar("a string", lambda value: kinds.text().parse(value).strip()))
    namespaces: tuple[str, ...] = key("namespace", _GLOBS, "", ())
    selector: str | None = key("selector", _SELECTOR, "", None)
    object_kind: str = key("kind", kinds.STRING, "", "")
    object_name: str = key("object", kinds.STRING, "", "")
    label: str = key("label", LABEL_NAME, "", "")
    place: str = ""

    def checked(self, place: Place) -> MappedMetric:
        """Return it with its usual label (MistakesError: of placeholders in the query)."""
        allowed, at = _PLACEHOLDERS[self.kind], place.at("query")
        used, mistakes = set(_HOLE.findall(self.query)), Mistakes()
        for name in sorted(used - set(allowed)):
            wanted = f"expected one of {', '.join(f'${n}' for n in allowed)}, got ${name}"
            fix = did_you_mean(name, allowed)[2:] or "remove it"
            group = f"(a group of label_replace is written ${{{name}}})"
            mistakes.add(at.problem(wanted, f"{fix} {group}"))
        missing = [f"${name}" for name in ("namespace", "pods") if name not in used]
        if missing and self.kind == "pods":
            wanted = f"expected {' and '.join(missing)} in a query for pods"
            fix = 'put it among the matchers, such as pod=~"$pods"'
            mistakes.add(at.problem(wanted, fix))
        if "{{" in self.query:
            told = "expected PromQL, got an unrendered Helm template"
            mistakes.add(at.problem(told, "render it first"))
        mistakes.refuse()
        return replace(self, label=self.label or ("pod" if self.kind == "pods" else ""))

    def fits(self, kind: Kind, name: str, namespace: str, selector: str) -> bool:
        """Whether the entry is for a metric; `fits_object` checks the object."""
        if (kind, name) != (self.kind, self.name):
            return False
        if self.namespaces and not any(fnmatchcase(namespace, one) for one in self.namespaces):
            return False
        return self.selector is None or self.selector == selector

    def fits_object(self, kind: str, name: str) -> bool:
        """Whether the entry is for this object."""
        if self.object_kind and self.object_kind != kind:
            return False
        return not self.object_name or fnmatchcase(name, self.object_name)

    def promql(self, namespace: str, selector: str, name: str) -> str:
        """Return the query for a metric; of pods with `$pods` left in it.

        Raises:
            ValueError: the metric has a selector that the query does not look at; a sentence.
        """
        if selector and self.selector is None and "$selector" not in self.query:
            raise ValueError(
                f"{self.place}: the metric has the selector {selector}, of which the entry says "
                "nothing: put $selector among the query's matchers, or say `selector` if the "
                "query is for this one"
            )
        fills = {"namespace": namespace, "object": name, "pods": PODS_HOLE}
        if "$selector" in self.query:
            fills["selector"] = ",".join(selector_matchers(selector))
        return _HOLE.sub(lambda found: fills.get(found[1], found[0]), self.query)


class _Metric:
    """The kind of an entry of `metrics`, whose keys depend on its type."""

    wants = "a mapping"

    def read(self, place: Place) -> Any:
        kind = place.at("type").value if isinstance(place.value, Mapping) else None
        unknown = {"pods": ("kind", "object"), "external": ("kind", "object", "label")}
        without = unknown.get(kind, ()) if isinstance(kind, str) else ()
        return Record(MappedMetric, nulls=True, without=without).read(place)


_METRICS: Final = ListOf(_Metric(), "a list", 1_000_000, only_lists=True, least=0)


@dataclass(frozen=True, slots=True)
class MappingFile:
    """Content of a mapping file."""

    metrics: tuple[MappedMetric, ...] = key("metrics", _METRICS, "", ())


def read_mapping_file(document: Place, mistakes: Mistakes) -> MappingFile:
    """Return the mapping that a document is, with its mistakes noted."""
    return mistakes.tried(Record(MappingFile, nulls=True).read, document) or MappingFile()


_OPERATORS: Final = {"=": "=", "==": "=", "!=": "!=", "in": "=~", "notin": "!~"}


def selector_matchers(selector: str) -> list[str]:
    """Return a metric's selector as matchers of PromQL.

    Raises:
        ValueError: it cannot be said in PromQL; a sentence.
    """
    return [_matcher(one) for one in parse_selector(selector).requirements]


def _matcher(one: Requirement) -> str:
    if not _LABEL.fullmatch(one.key):
        raise ValueError(
            f"the metric's selector asks for {one.key!r}, which is no name of a label in "
            "Prometheus: its server refuses the query"
        )
    if one.operator in ("gt", "lt"):
        raise ValueError(f"the metric's selector compares numbers ({one}), which PromQL cannot")
    if one.operator in ("exists", "!"):
        return f'{one.key}{"!=" if one.operator == "exists" else "="}""'
    # A single value is passed on as it is, so that it may be a pattern after `in`.
    return f"{one.key}{_OPERATORS[one.operator]}{go_quote('|'.join(sorted(one.values)))}"
