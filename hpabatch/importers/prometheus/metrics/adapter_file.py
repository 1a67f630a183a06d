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
from typing import Any, Final

from hpabatch.inputs import document_kinds as kinds
from hpabatch.inputs.document_keys import ListOf, MapOf, Scalar, record_of
from hpabatch.inputs.documents import Mistakes, Place, show

TOP_KEYS: Final = ("rules", "externalRules", "resourceRules")
"""The keys by which a configuration is recognized."""

_HOLE = re.compile(r"<<\s*(?:\.(\w+)|index\s+\.LabelValuesByName\s+\"(\w+)\")\s*>>", re.ASCII)
_QUERY_FIELDS: Final = ("Series", "LabelMatchers", "GroupBy")
_LABEL_FIELDS: Final = ("Group", "Resource")
_WRITE: Final = "write a mapping file (docs/prometheus.md)"
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


def _template(key: str, allowed: Collection[str]) -> Scalar:
    """Return the kind of a template at a key, with these fields."""

    def parse(value: object) -> Template:
        text = kinds.STRING.parse(value)
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

    return Scalar("a string", parse)


_QUERY: Final = _template("metricsQuery", _QUERY_FIELDS)
_RESOURCES: Final = record_of({
    "overrides": MapOf(
        record_of({"group": kinds.STRING, "resource": kinds.text()}, "resource"),
        "a mapping", may_be_empty=True,
    ),
    "template": _template("template", _LABEL_FIELDS),
    "namespaced": kinds.YES_NO,
})  # fmt: skip
_FILTERS: Final = ListOf(
    record_of({"is": kinds.STRING, "isNot": kinds.STRING}), "a list", 1_000_000, only_lists=True,
    least=0,
)  # fmt: skip
_RULE: Final = record_of({
    "seriesQuery": kinds.text(), "seriesFilters": _FILTERS, "resources": _RESOURCES,
    "name": record_of({"matches": kinds.STRING, "as": kinds.STRING}), "metricsQuery": _QUERY,
}, "seriesQuery")  # fmt: skip
_RULES: Final = ListOf(_RULE, "a list", 1_000_000, only_lists=True, least=0)
_RESOURCE: Final = record_of({
    "containerQuery": _template("containerQuery", _QUERY_FIELDS), "nodeQuery": kinds.STRING,
    "resources": _RESOURCES, "containerLabel": kinds.text(),
}, "containerLabel")  # fmt: skip
_DURATION: Final = kinds.duration()
# ("" as the chart writes it where none is said)
_WINDOW: Final = Scalar(_DURATION.wants, lambda value: 0 if value == "" else _DURATION.parse(value))
_ADAPTER: Final = record_of({
    "rules": _RULES, "externalRules": _RULES,
    "resourceRules": record_of(
        {"cpu": _RESOURCE, "memory": _RESOURCE, "window": _WINDOW}, "cpu", "memory"
    ),
})  # fmt: skip


def read_adapter(document: Place, mistakes: Mistakes) -> AdapterConfig:
    """Return the configuration that a document is, with its mistakes noted."""
    source, rules = document.source, document.at("rules")
    if isinstance(rules.value, Mapping):
        wrong = "expected the adapter's configuration, got values of a Helm chart"
        fix = "give the ConfigMap that the chart makes of them (kubectl get configmap -o yaml)"
        mistakes.add(rules.problem(wrong, fix))
        return AdapterConfig(source)
    given = mistakes.tried(_ADAPTER.read, document)
    if not given:
        return AdapterConfig(source)

    def rules_of(key: str) -> tuple[Rule, ...]:
        places = document.at(key).items() if key in given else ()
        pairs = zip(places, given.get(key, ()), strict=True)
        return tuple(mistakes.tried(_rule, place, said) for place, said in pairs)

    served, at = given.get("resourceRules", {}), document.at("resourceRules")
    resource_rules = {
        resource: ResourceRule(
            str(at.at(resource)),
            served[resource].get("containerQuery", Template("")),
            _resources(served[resource].get("resources")),
            served[resource]["containerLabel"],
        )
        for resource in ("cpu", "memory")
        if resource in served
    }
    both = rules_of("rules"), rules_of("externalRules")
    return AdapterConfig(source, *both, resource_rules, served.get("window", 0))


def _rule(place: Place, given: Mapping[str, Any]) -> Rule:
    name, resources = given.get("name", {}), given.get("resources")
    filters = given.get("seriesFilters", ())
    at = place.at("seriesFilters").items() if filters else []
    mistakes = Mistakes()
    read = [mistakes.tried(_filter, item, said) for item, said in zip(at, filters, strict=True)]
    pattern = re.compile(".*", re.DOTALL)
    if name.get("matches"):
        pattern, problem = _regexp("matches", name["matches"])
        read.append((SeriesFilter(pattern, positive=True), problem))
    if not name.get("as") and pattern.groups > 1:
        mistake = f"expected the key as: name.matches has {pattern.groups} groups"
        mistakes.tried(place.at("name").refuse, mistake, "say which group is meant")
    mistakes.refuse()
    query = given.get("metricsQuery", Template(""))
    mapping = _resources(resources)
    problems = [mapping.template.problem] if mapping.template is not None else []
    problems += [problem for _, problem in read]
    problems += [query.problem if query.text else "the rule has no metricsQuery"]
    return Rule(
        str(place),
        given["seriesQuery"].strip(),
        tuple(one for one, _ in read),
        mapping,
        pattern,
        name.get("as") or ("$1" if pattern.groups else "$0"),
        query,
        next(filter(None, problems), ""),
    )


def _filter(place: Place, given: Mapping[str, str]) -> tuple[SeriesFilter, str]:
    wanted, unwanted = given.get("is"), given.get("isNot")
    if bool(wanted) == bool(unwanted):
        found = "both" if wanted else "none of them"
        place.refuse(f"expected one of is and isNot, got {found}")
    pattern, problem = _regexp("is" if wanted else "isNot", wanted or unwanted or "")
    return SeriesFilter(pattern, positive=bool(wanted)), problem


def _resources(given: Mapping[str, Any] | None) -> ResourceMapping:
    if given is None:
        return ResourceMapping()
    overrides = (
        Override(label, said.get("group", ""), said["resource"])
        for label, said in given.get("overrides", ())
    )
    template = given.get("template")
    template = template if template is not None and template.text else None
    return ResourceMapping(tuple(overrides), template, given.get("namespaced", True))


def _regexp(key: str, text: str) -> tuple[re.Pattern[str], str]:
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
