"""Mapping files: PromQL for metrics whose server's configuration is not at hand."""

from __future__ import annotations

import re
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Final, Literal

from hpabatch.importers.prometheus.client.queries import LABEL_NAME, Scalable, read_scalable
from hpabatch.importers.prometheus.metrics.adapter import selector_matchers
from hpabatch.importers.prometheus.metrics.queries import PODS_HOLE
from hpabatch.inputs.document_keys import ListOf, Scalar
from hpabatch.inputs.document_kinds import text
from hpabatch.inputs.documents import Mistakes, Place, show
from hpabatch.inputs.fields import Fields
from hpabatch.model.selectors import parse_selector
from hpabatch.model.suggestions import did_you_mean

TOP_KEYS: Final = ("metrics", "scalables")
"""The keys by which a mapping file is recognized."""

Kind = Literal["pods", "object", "external"]
_KINDS: Final[dict[str, Kind]] = {"pods": "pods", "object": "object", "external": "external"}
_PLACEHOLDERS: Final = {
    "pods": ("namespace", "pods", "selector"),
    "object": ("namespace", "object", "selector"),
    "external": ("namespace", "selector"),
}
_HOLE = re.compile(r"\$([a-zA-Z_]\w*)", re.ASCII)


@dataclass(frozen=True, slots=True)
class MappedMetric:
    """An entry of `metrics`.

    Attributes:
        place: file and path, for messages.
        namespaces: globs; none: every namespace.
        selector: only for metrics with this selector, in Kubernetes' form; None: for any.
        object_kind, object_name: only for such objects; "": for any (the name is a glob).
        query: PromQL with placeholders.
        label: whose value is the pod's or object's name; "": the one series is the object's.
    """

    place: str
    kind: Kind
    name: str
    query: str
    namespaces: tuple[str, ...] = ()
    selector: str | None = None
    object_kind: str = ""
    object_name: str = ""
    label: str = ""

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


@dataclass(frozen=True, slots=True)
class MappingFile:
    """Content of a mapping file."""

    metrics: tuple[MappedMetric, ...] = ()
    scalables: tuple[Scalable, ...] = ()


def read_mapping_file(document: Place, mistakes: Mistakes) -> MappingFile:
    """Return the mapping that a document is, with its mistakes noted."""
    top = Fields(document, mistakes)
    metrics = tuple(filter(None, (_metric(item) for item in top.children("metrics"))))
    kinds = top.mappings("scalables")
    scalables = tuple(read_scalable(kind, fields) for kind, fields in kinds.items())
    top.close()
    return MappingFile(metrics, scalables)


def _metric(fields: Fields) -> MappedMetric | None:
    kind = _KINDS.get(fields.one_of("type", _KINDS, required=True))
    name = fields.text("name", required=True)
    query = fields.text("query", required=True).strip()
    namespaces: tuple[str, ...] = fields.read("namespace", _GLOBS) or ()
    selector: str | None = fields.read("selector", _SELECTOR)
    object_kind = fields.text("kind") if kind in (None, "object") else ""
    object_name = fields.text("object") if kind in (None, "object") else ""
    label = (fields.read("label", LABEL_NAME) or "") if kind != "external" else ""
    fields.close()
    if kind is None:
        return None
    if query:
        _check_query(fields, kind, query)
    return MappedMetric(
        str(fields.here),
        kind,
        name,
        query,
        namespaces,
        selector,
        object_kind,
        object_name,
        label or ("pod" if kind == "pods" else ""),
    )


def _check_query(fields: Fields, kind: Kind, query: str) -> None:
    allowed = _PLACEHOLDERS[kind]
    used = set(_HOLE.findall(query))
    for name in sorted(used - set(allowed)):
        fields.mistake(
            "query",
            f"expected one of {', '.join(f'${n}' for n in allowed)}, got ${name}",
            f"{did_you_mean(name, allowed)[2:] or 'remove it'} (a group of label_replace is "
            f"written ${{{name}}})",
        )
    missing = [name for name in ("namespace", "pods") if kind == "pods" and name not in used]
    if missing:
        fields.mistake(
            "query",
            f"expected {' and '.join(f'${name}' for name in missing)} in a query for pods",
            'put it among the matchers, such as pod=~"$pods"',
        )
    if "{{" in query:
        told = "expected PromQL, got an unrendered Helm template"
        fields.mistake("query", told, "render it first")


def _selector(value: object) -> str:
    if not isinstance(value, str):
        raise ValueError
    try:
        return str(parse_selector(value))
    except ValueError as error:
        raise ValueError(f"expected {_SELECTOR.wants}, got {show(value)}: {error}") from None


_SELECTOR: Final = Scalar("a label selector such as queue=orders", _selector)
_GLOBS: Final = ListOf(text("a name"), "a name or a list of names")
