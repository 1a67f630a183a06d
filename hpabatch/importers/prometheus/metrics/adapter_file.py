"""Configuration of prometheus-adapter, in the forms that configurations use.

Follows pkg/config/config.go of kubernetes-sigs/prometheus-adapter (0.9 to 0.12). Read are the
fields of templates, one by one, and the regular expressions that Go and Python share. A rule with
anything else has a `problem`, reported where a metric needs the rule: a mapping file can say its
PromQL.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Final

from hpabatch.inputs import document_kinds as kinds
from hpabatch.inputs.documents import Mistakes, Place, show
from hpabatch.inputs.fields import Fields

TOP_KEYS: Final = ("rules", "externalRules", "resourceRules")
"""The keys by which a configuration is recognized."""

_HOLE = re.compile(r"<<\s*(?:\.(\w+)|index\s+\.LabelValuesByName\s+\"(\w+)\")\s*>>", re.ASCII)
_QUERY_FIELDS: Final = ("Series", "LabelMatchers", "GroupBy")
_LABEL_FIELDS: Final = ("Group", "Resource")
_WRITE: Final = "write a mapping file (docs/prometheus-mapping.md)"
_NOTHING = re.compile("(?!)")
_PLACEHOLDER = re.compile(r"\$(?:\$|\{(\w+)\}|(\w+))")


@dataclass(frozen=True, slots=True)
class Template:
    """A text with fields such as `<<.Series>>`; `problem` says why it is not read, a sentence."""

    text: str
    problem: str = ""

    def filled(self, fields: Mapping[str, str], values: Mapping[str, str] | None = None) -> str:
        """Return the text with its fields, and with values of labels (`index`).

        Raises:
            ValueError: there is a `problem`.
        """
        if self.problem:
            raise ValueError(self.problem)
        return _HOLE.sub(
            lambda hole: fields[hole[1]] if hole[1] else (values or {}).get(hole[2], ""), self.text
        )


@dataclass(frozen=True, slots=True)
class Override:
    """A label that names objects of a resource; `group` "": any."""

    label: str
    group: str
    resource: str


@dataclass(frozen=True, slots=True)
class ResourceMapping:
    """The mapping of labels to Kubernetes resources."""

    overrides: tuple[Override, ...] = ()
    template: Template | None = None
    namespaced: bool = True


@dataclass(frozen=True, slots=True)
class SeriesFilter:
    """A regular expression that names of series must match, or must not."""

    pattern: re.Pattern[str]
    positive: bool

    def matches(self, name: str) -> bool:
        """Whether a name stays."""
        return (self.pattern.search(name) is not None) == self.positive


@dataclass(frozen=True, slots=True)
class Rule:
    """One of `rules` or `externalRules`.

    Attributes:
        place: file and path, for messages.
        series_query: the selector of /api/v1/series by which series are found.
        filters: what their names must match as well.
        resources: the labels of Kubernetes objects.
        matches, name_as: how a series' name becomes a metric's.
        query: the template of the PromQL that is asked.
        problem: why this package cannot follow the rule; "": it can.
    """

    place: str
    series_query: str
    filters: tuple[SeriesFilter, ...]
    resources: ResourceMapping
    matches: re.Pattern[str]
    name_as: str
    query: Template
    problem: str = ""

    def metric_name(self, series: str) -> str | None:
        """Return the metric that a series makes, None where it is none of this rule's."""
        if not all(one.matches(series) for one in self.filters):
            return None
        found = self.matches.search(series)
        return None if found is None else _expand(self.name_as, found)


@dataclass(frozen=True, slots=True)
class ResourceRule:
    """The rule for cpu or memory; `query` is that of containers."""

    place: str
    query: Template
    resources: ResourceMapping
    container_label: str


@dataclass(frozen=True, slots=True)
class AdapterConfig:
    """A configuration; `resource_rules` by resource, none: the adapter served no cpu and memory."""

    source: str
    rules: tuple[Rule, ...] = ()
    external_rules: tuple[Rule, ...] = ()
    resource_rules: Mapping[str, ResourceRule] = field(default_factory=dict)
    window_ms: int = 0


def read_adapter(document: Place, mistakes: Mistakes) -> AdapterConfig:
    """Return the configuration that a document is, with its mistakes noted."""
    top, source = Fields(document, mistakes), document.source
    if isinstance(top.value("rules"), Mapping):
        top.mistake(
            "rules",
            "expected the adapter's configuration, got values of a Helm chart",
            "give the ConfigMap that the chart makes of them (kubectl get configmap -o yaml)",
        )
        return AdapterConfig(source)
    rules = tuple(_rule(item) for item in top.children("rules"))
    external = tuple(_rule(item) for item in top.children("externalRules"))
    resource_rules, window_ms = _resource_rules(top.child("resourceRules"))
    top.close()
    return AdapterConfig(source, rules, external, resource_rules, window_ms)


def _rule(fields: Fields) -> Rule:
    series_query = fields.text("seriesQuery", required=True).strip()
    filters = [_filter(item) for item in fields.children("seriesFilters")]
    resources, problems = _resources(fields.child("resources"))
    name = fields.child("name")
    matches = "" if name is None else name.text("matches")
    name_as = "" if name is None else name.text("as")
    pattern = re.compile(".*", re.DOTALL)
    if name is not None:
        if matches:
            pattern, problem = _regexp(name, "matches", matches)
            filters.append((SeriesFilter(pattern, positive=True), problem))
        name.close()
    if not name_as and pattern.groups > 1:
        place = fields.at("name")
        mistake = f"expected the key as: name.matches has {pattern.groups} groups"
        fields.mistakes.add(place.problem(mistake, "say which group is meant"))
    query = _template(fields, "metricsQuery")
    fields.close()
    problems += [problem for _, problem in filters]
    problems += [query.problem if query.text else "the rule has no metricsQuery"]
    return Rule(
        str(fields.here),
        series_query,
        tuple(one for one, _ in filters),
        resources,
        pattern,
        name_as or ("$1" if pattern.groups else "$0"),
        query,
        next(filter(None, problems), ""),
    )


def _filter(fields: Fields) -> tuple[SeriesFilter, str]:
    wanted, unwanted = fields.text("is"), fields.text("isNot")
    fields.close()
    if bool(wanted) == bool(unwanted):
        found = "both" if wanted else "none of them"
        fields.mistake("", f"expected one of is and isNot, got {found}")
    pattern, problem = _regexp(fields, "is" if wanted else "isNot", wanted or unwanted)
    return SeriesFilter(pattern, positive=bool(wanted)), problem


def _resources(fields: Fields | None) -> tuple[ResourceMapping, list[str]]:
    if fields is None:
        return ResourceMapping(), []
    overrides = []
    for label, item in fields.mappings("overrides").items():
        overrides.append(Override(label, item.text("group"), item.text("resource", required=True)))
        item.close()
    template = _template(fields, "template", _LABEL_FIELDS)
    namespaced = fields.read("namespaced", kinds.YES_NO)
    fields.close()
    mapping = ResourceMapping(
        tuple(overrides), template if template.text else None, namespaced is not False
    )
    return mapping, [template.problem]


def _template(fields: Fields, key: str, allowed: Collection[str] = _QUERY_FIELDS) -> Template:
    text = fields.text(key)
    # The adapter has values of labels in queries only.
    by_name = allowed is _QUERY_FIELDS
    known = _HOLE.sub(
        lambda hole: "" if hole[1] in allowed or (hole[2] and by_name) else hole[0], text
    )
    if "<<" not in known:
        return Template(text)
    named = ", ".join(f"<<.{name}>>" for name in allowed)
    action = known[known.index("<<") :].partition(">>")[0]
    return Template(text, f"{key}: expected {named}, got {action}>>; {_WRITE}")


def _resource_rules(fields: Fields | None) -> tuple[dict[str, ResourceRule], int]:
    if fields is None:
        return {}, 0
    found = {}
    for resource in ("cpu", "memory"):
        inner = fields.child(resource)
        if inner is None:
            fields.missing(resource, "a mapping")
            continue
        query = _template(inner, "containerQuery")
        inner.text("nodeQuery")
        mapping, _ = _resources(inner.child("resources"))
        label = inner.text("containerLabel", required=True)
        inner.close()
        found[resource] = ResourceRule(str(inner.here), query, mapping, label)
    window_ms = fields.read("window", kinds.duration()) if fields.text("window") else 0
    fields.close()
    return found, window_ms or 0


def _regexp(fields: Fields, key: str, text: str) -> tuple[re.Pattern[str], str]:
    """Return a regular expression that Go and Python share; the second is why it is none."""
    try:
        if "[:" in text:
            raise re.error("a class of POSIX")
        return re.compile(text, re.ASCII), ""
    except (re.error, RecursionError, OverflowError) as error:
        told = f"expected a plain regular expression, got {show(text)} ({error})"
        return _NOTHING, f"{key}: {told}; {_WRITE}"


def _expand(form: str, found: re.Match[str]) -> str:
    """Return `$1_per_second` filled in as Go's Regexp.Expand does it.

    A name is as long as it can be, so that `$1_total` asks for a group `1_total`, which there is
    not: nothing. `${1}_total` is what is meant.
    """

    def fill(place: re.Match[str]) -> str:
        name = place[1] or place[2]
        if name is None:
            return "$"
        groups = found.re.groupindex
        number = int(name) if name.isdecimal() and len(name) < 9 else groups.get(name, -1)
        return (found[number] or "") if 0 <= number <= found.re.groups else ""

    return _PLACEHOLDER.sub(fill, form)
