"""PromQL that prometheus-adapter sends for a metric.

The adapter knows a metric only through series that exist: for every rule it lists the series that
`seriesQuery` selects, names a metric after each, and takes the labels of its objects from the
series' labels. So a query needs the series that were found, with their label names. Follows
pkg/naming, pkg/custom-provider, pkg/external-provider and pkg/resourceprovider of
kubernetes-sigs/prometheus-adapter.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from hpabatch.importers.prometheus.metrics.adapter_file import (
    AdapterConfig,
    ResourceMapping,
    Rule,
    Template,
)
from hpabatch.importers.prometheus.metrics.queries import with_matchers
from hpabatch.inputs.documents import show
from hpabatch.model.objects.autoscale import TYPES
from hpabatch.model.objects.field_errors import go_quote
from hpabatch.model.selectors import Requirement, parse_selector

Found = Mapping[str, Mapping[str, Collection[str]]]
"""By selector: the series that it selects, with the names of their labels."""

_LABEL: Final = re.compile(r"[a-zA-Z_][a-zA-Z0-9_]*")


@dataclass(frozen=True, slots=True)
class Resource:
    """A kind of objects as APIs name it."""

    group: str
    plural: str
    singular: str

    def __str__(self) -> str:
        """Return `ingresses.networking.k8s.io`."""
        return f"{self.plural}.{self.group}" if self.group else self.plural

    def is_named(self, group: str, name: str) -> bool:
        """Whether a group (its beginning) and a plural or singular name mean this.

        Without a group a built-in kind goes before any other of its name (discovery's priorities).
        """
        home = next((one.group for one in TYPES if one.plural == self.plural), self.group)
        is_group = self.group.startswith(group) if group else self.group in (home, "extensions")
        return name in (self.plural, self.singular) and is_group


PODS: Final = Resource("", "pods", "pod")
NAMESPACES: Final = Resource("", "namespaces", "namespace")
_ROOT_SCOPED: Final = ("nodes", "persistentvolumes")


def resource_of(kind: str, api_version: str) -> Resource:
    """Return the resource of a described object, its plural as English has it.

    Raises:
        ValueError: a built-in kind lacks its API group, so that the controller finds no such kind.
    """
    singular = kind.lower()
    plural = singular + "s"
    if singular.endswith("endpoints"):
        plural = singular
    elif singular.endswith(("s", "x", "ch")):
        plural = singular + "es"
    elif singular.endswith("y") and singular[-2:-1] not in tuple("aeiou"):
        plural = singular[:-1] + "ies"
    group, slash, _ = api_version.partition("/")
    known = next((one.api_version for one in TYPES if one.plural == plural), "")
    if "/" in known and not slash:
        raise ValueError(
            f"describedObject: expected an apiVersion such as {known}, got {show(api_version)}: "
            f"the controller finds no {kind} without its group"
        )
    return Resource(group if slash else "", plural, singular)


@dataclass(frozen=True, slots=True)
class AdapterQuery:
    """A query of the adapter.

    Attributes:
        label: whose value is the object's name; "" for External metrics, of which every series
            counts.
        place: the rule, for messages.
        note: what is uncertain about it, a sentence; "": nothing.
    """

    promql: str
    label: str
    place: str
    note: str = ""


@dataclass(frozen=True, slots=True)
class ResourceQuery:
    """The adapter's query for cpu (cores) or memory (bytes) of containers."""

    promql: str
    pod_label: str
    container_label: str
    window_ms: int

    def within(self, matchers: str) -> ResourceQuery:
        """Return the query of one cluster of several: `cluster="a"` goes into each selector."""
        return replace(self, promql=with_matchers(self.promql, matchers))


def series_selectors(config: AdapterConfig) -> tuple[str, ...]:
    """Return the selectors whose series must be known, each once."""
    rules = (*config.rules, *config.external_rules)
    return tuple(dict.fromkeys(rule.series_query for rule in rules if rule.series_query))


def narrowed(selector: str, series: str) -> str:
    """Return a selector for the same series as far as they have this name."""
    name, brace, rest = selector.strip().partition("{")
    if name.strip() or not brace:
        return selector
    inner = rest.lstrip()
    comma = "" if inner.startswith("}") else ","
    return f"{{__name__={go_quote(series)}{comma}{inner}"


def metric_names(rule: Rule, series: Iterable[str]) -> dict[str, list[str]]:
    """Return the metrics that a rule makes of these series: name -> its series in order."""
    found: dict[str, list[str]] = {}
    for name in sorted(set(series)):
        metric = rule.metric_name(name)
        if metric is not None:
            found.setdefault(metric, []).append(name)
    return found


def custom_query(
    config: AdapterConfig,
    found: Found,
    resource: Resource,
    metric: str,
    namespace: str,
    names: Sequence[str],
    selector: str = "",
) -> AdapterQuery:
    """Return the query for a metric of some objects of a namespace (custom.metrics.k8s.io).

    Args:
        namespace: of the HPA; of a Namespace metric the one object, and `names` is not read.
        names: the objects; several, and those of a name with `$`, are asked as a pattern.

    Raises:
        ValueError: why the adapter has no such metric, or responds with an error; a sentence.
    """
    if resource.plural in _ROOT_SCOPED:
        raise ValueError(
            f"the controller asks for {resource} within its namespace, where the adapter has none"
        )
    owners = []
    for rule in config.rules:
        there = found.get(rule.series_query, {})
        for series in metric_names(rule, there).get(metric, ()):
            if _belongs(rule.resources, resource, there[series]):
                owners.append((rule, series))
    rule, series, note = _winner(owners, metric, f"for {resource}", config.rules)
    scope = "" if resource == NAMESPACES else namespace
    objects = [namespace] if resource == NAMESPACES else list(names)
    matchers, values = _matchers(rule.resources, scope, selector)
    label = _add_objects(matchers, values, rule.resources, resource, objects)
    return AdapterQuery(
        _filled(rule.query, series, matchers, values, label), label, rule.place, note
    )


def external_query(
    config: AdapterConfig, found: Found, metric: str, namespace: str, selector: str = ""
) -> AdapterQuery:
    """Return the query for an External metric (external.metrics.k8s.io).

    Raises:
        ValueError: why the adapter has no such metric, or responds with an error; a sentence.
    """
    owners = [
        (rule, series)
        for rule in config.external_rules
        for series in metric_names(rule, found.get(rule.series_query, {})).get(metric, ())
    ]
    rule, series, note = _winner(owners, metric, "", config.external_rules)
    scope = namespace if rule.resources.namespaced else ""
    matchers, values = _matchers(rule.resources, scope, selector)
    # The adapter fills nothing in for .GroupBy here.
    promql = _filled(rule.query, series, matchers, values, "")
    return AdapterQuery(promql, "", rule.place, note)


def resource_query(
    config: AdapterConfig, resource: str, namespace: str, pods: Sequence[str]
) -> ResourceQuery | None:
    """Return the adapter's query for `cpu` or `memory` of pods, None where it has none.

    Raises:
        ValueError: why it cannot be asked so; a sentence.
    """
    rule = config.resource_rules.get(resource)
    if rule is None:
        return None
    matchers, values = _matchers(rule.resources, namespace, "")
    label = _add_objects(matchers, values, rule.resources, PODS, pods)
    promql = _filled(rule.query, "", matchers, values, f"{label},{rule.container_label}")
    return ResourceQuery(promql, label, rule.container_label, config.window_ms)


def label_of(mapping: ResourceMapping, resource: Resource) -> str:
    """Return the label that names objects of a resource.

    Raises:
        ValueError: there is none, or it is not the same at each start of the adapter.
    """
    labels = [one.label for one in mapping.overrides if resource.is_named(one.group, one.resource)]
    if len(labels) > 1:
        raise ValueError(
            f"resources.overrides has several labels for {resource} ({', '.join(labels)}), of "
            "which the adapter takes one at random: leave the one that counts in a copy"
        )
    if labels:
        return labels[0]
    if mapping.template is None:
        raise ValueError(
            f"resources has no label for {resource}: the adapter responds with an error"
        )
    group = resource.group.replace(".", "_").replace("-", "_")
    label = mapping.template.filled({"Group": group, "Resource": resource.singular})
    if not label:
        raise ValueError(f"resources.template makes no label for {resource}")
    return label


def _belongs(mapping: ResourceMapping, resource: Resource, labels: Collection[str]) -> bool:
    """Whether a series with these labels is one of objects of a resource."""
    overrides = {one.label: one for one in mapping.overrides}
    form = _label_form(mapping.template)
    for label in labels:
        override = overrides.get(label)
        if override is not None:
            named = (override.group, override.resource)
        elif form is not None and (groups := form.fullmatch(label)) is not None:
            named = (groups.groupdict().get("group") or "", groups["resource"])
        else:
            continue
        if resource.is_named(*named):
            return True
    return False


def _label_form(template: Template | None) -> re.Pattern[str] | None:
    """Return the pattern of a template's labels, None where there is none."""
    if template is None or template.problem:
        return None
    try:
        form = re.compile(
            template.filled({"Group": "(?P<group>.+?)", "Resource": "(?P<resource>.+?)"})
        )
    except re.error:
        return None
    return form if "resource" in form.groupindex else None


def _winner(
    owners: Sequence[tuple[Rule, str]], metric: str, of: str, rules: Sequence[Rule]
) -> tuple[Rule, str, str]:
    """Return rule and series of a metric; of several the adapter keeps the last."""
    if not owners:
        broken = next((rule for rule in rules if rule.problem), None)
        also = f" ({broken.place} could not be followed: {broken.problem})" if broken else ""
        what = " ".join(filter(None, (f"a metric {metric}", of)))
        raise ValueError(f"no series that the adapter's rules look for makes {what}{also}")
    rule, series = owners[-1]
    if rule.problem:
        raise ValueError(f"{rule.place}: {rule.problem}")
    others = sorted({f"{name} ({one.place})" for one, name in owners[:-1]})
    if not others:
        return rule, series, ""
    shown = ", ".join(others[:5]) + (", …" if len(others) > 5 else "")
    return rule, series, (
        f"several series make the metric {metric}, of which the adapter uses the one it was told "
        f"last: {series} was taken, not {shown}"
    )  # fmt: skip


def _add_objects(
    matchers: list[str],
    values: dict[str, str],
    mapping: ResourceMapping,
    resource: Resource,
    names: Sequence[str],
) -> str:
    """Add the matcher of some objects, and return their label."""
    label = label_of(mapping, resource)
    # The adapter uses several names as a pattern.
    is_pattern = len(names) != 1 or "$" in names[0]
    matchers.append(f"{label}{'=~' if is_pattern else '='}{go_quote('|'.join(names))}")
    values[label] = "|".join(names)
    return label


def _filled(
    query: Template,
    series: str,
    matchers: Sequence[str],
    values: Mapping[str, str],
    group_by: str,
) -> str:
    fields = {"Series": series, "LabelMatchers": ",".join(matchers), "GroupBy": group_by}
    promql = query.filled(fields, values)
    if not promql.strip():
        raise ValueError("the template makes an empty query")
    return promql


def _matchers(
    mapping: ResourceMapping, namespace: str, selector: str
) -> tuple[list[str], dict[str, str]]:
    """Return the matchers of a selector and a namespace, and their values by label."""
    matchers, values = [], {}
    for one in parse_selector(selector).requirements:
        matchers.append(_matcher(one))
        values[one.key] = "|".join(sorted(one.values))
    if namespace:
        label = label_of(mapping, NAMESPACES)
        matchers.append(f"{label}={go_quote(namespace)}")
        values[label] = namespace
    return matchers, values


_OPERATORS: Final = {"=": "=", "==": "=", "!=": "!=", "in": "=~", "notin": "!~"}


def selector_matchers(selector: str) -> list[str]:
    """Return a metric's selector as matchers of PromQL, as the adapter writes them.

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
