"""Our own mapping file: PromQL for metrics of which no server's configuration is at hand."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Final, Literal

from hpabatch.importers.prometheus.client.queries import Scalable
from hpabatch.importers.prometheus.metrics.adapter import LABEL, selector_matchers
from hpabatch.importers.prometheus.metrics.config_fields import ConfigFields, Mistakes
from hpabatch.importers.prometheus.metrics.queries import PODS_HOLE
from hpabatch.inputs.fields import show
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
_SERIES = re.compile(r"[a-zA-Z_:][a-zA-Z0-9_:]*")


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
        """Whether the entry is for a metric; what an object is, is asked by `fits_object`."""
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
    """What a mapping file says."""

    metrics: tuple[MappedMetric, ...] = ()
    scalables: tuple[Scalable, ...] = ()


def read_mapping_file(value: Mapping[str, object], source: str, mistakes: Mistakes) -> MappingFile:
    """Return the mapping that a parsed document is; what is wrong goes to `mistakes`."""
    top = ConfigFields(value, source, "", mistakes)
    metrics = tuple(filter(None, (_metric(item) for item in top.children("metrics"))))
    inner = top.child("scalables")
    kinds = {} if inner is None else inner.members()
    scalables = tuple(_scalable(kind, item) for kind, item in kinds.items())
    top.close()
    return MappingFile(metrics, scalables)


def _metric(fields: ConfigFields) -> MappedMetric | None:
    kind = _KINDS.get(fields.one_of("type", _KINDS, required=True))
    name = fields.text("name", required=True)
    query = fields.text("query", required=True).strip()
    namespaces = _globs(fields, "namespace")
    selector = _selector(fields)
    object_kind = fields.text("kind") if kind in (None, "object") else ""
    object_name = fields.text("object") if kind in (None, "object") else ""
    label = fields.text("label") if kind != "external" else ""
    fields.close()
    if label and not LABEL.fullmatch(label):
        fields.mistake("label", f"{label!r} is no name of a label")
    if kind is None:
        return None
    if query:
        _check_query(fields, kind, query)
    return MappedMetric(
        fields.place(),
        kind,
        name,
        query,
        namespaces,
        selector,
        object_kind,
        object_name,
        label or ("pod" if kind == "pods" else ""),
    )


def _check_query(fields: ConfigFields, kind: Kind, query: str) -> None:
    allowed = _PLACEHOLDERS[kind]
    used = set(_HOLE.findall(query))
    for name in sorted(used - set(allowed)):
        hint = did_you_mean(name, allowed) or f" (there are {', '.join(f'${n}' for n in allowed)})"
        fields.mistake(
            "query",
            f"unknown placeholder ${name}{hint}; a group of label_replace is written ${{{name}}}",
        )
    missing = [name for name in ("namespace", "pods") if kind == "pods" and name not in used]
    if missing:
        fields.mistake(
            "query",
            f'a query for pods needs $namespace and $pods among its matchers (pod=~"$pods"), '
            f"missing: {', '.join(f'${name}' for name in missing)}",
        )
    if "{{" in query:
        fields.mistake("query", "looks like an unrendered Helm template; render it first")


def _selector(fields: ConfigFields) -> str | None:
    if fields.get("selector") is None:
        return None
    text = fields.text("selector")
    try:
        return str(parse_selector(text))
    except ValueError as error:
        fields.mistake("selector", f"{text!r} is not a selector such as queue=orders: {error}")
        return None


def _globs(fields: ConfigFields, key: str) -> tuple[str, ...]:
    value = fields.get(key)
    items = value if isinstance(value, list) else [] if value is None else [value]
    found = []
    for item in items:
        if isinstance(item, str) and item:
            found.append(item)
        else:
            fields.mistake(key, f"a name or a list of names is wanted, found {show(item)}")
    return tuple(found)


def _scalable(kind: str, fields: ConfigFields) -> Scalable:
    label, spec = fields.text("label", required=True), fields.text("spec", required=True)
    status = fields.text("status") or spec
    fields.close()
    for key, name, form in (
        ("label", label, LABEL),
        ("spec", spec, _SERIES),
        ("status", status, _SERIES),
    ):
        if name and not form.fullmatch(name):
            what = "a label" if form is LABEL else "a series"
            fields.mistake(key, f"{name!r} is no name of {what}")
    return Scalable(kind, label, spec, status)
