"""prometheus-adapter: its configuration, in the forms that are used, and the PromQL that it sends.

The adapter knows a metric only through series that exist: for every rule it lists the series that
`seriesQuery` selects, names a metric after each, and takes the labels of its objects from the
series' labels. So a query needs the series that were found, with their label names. Follows
pkg/config, pkg/naming, pkg/custom-provider, pkg/external-provider and pkg/resourceprovider of
kubernetes-sigs/prometheus-adapter (0.9 to 0.12).

Read are the fields of templates, one by one, and the regular expressions that Go and Python share.
A rule with anything else has a `problem`, reported where a metric needs the rule: a mapping file
can say its PromQL.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Final

from hpabatch.inputs import document_kinds as kinds
from hpabatch.inputs.document_keys import ListOf, MapOf, Record, Scalar, key
from hpabatch.inputs.documents import Mistakes, Place, show
from hpabatch.model.objects.autoscale import TYPES
from hpabatch.model.objects.field_errors import go_quote
from hpabatch.model.selectors import Requirement, parse_selector

TOP_KEYS: Final = ("rules", "externalRules", "resourceRules")
"""The keys by which a configuration is recognized."""

_HOLE = re.compile(r"<<\s*(?:\.(\w+)|index\s+\.LabelValuesByName\s+\"(\w+)\")\s*>>", re.ASCII)
_QUERY_FIELDS: Final = ("Series", "LabelMatchers", "GroupBy")
_WRITE: Final = "write a mapping file (docs/prometheus.md)"
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


def _template(name: str, allowed: Collection[str]) -> Scalar:
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
        return Template(text, f"{name}: expected {named}, got {action}>>; {_WRITE}")

    return Scalar("a string", parse)


@dataclass(frozen=True, slots=True)
class Override:
    """The resource whose objects a label names; `group` "": any."""

    resource: str = key("resource", kinds.text())
    group: str = key("group", kinds.STRING, "", "")


@dataclass(frozen=True, slots=True)
class ResourceMapping:
    """The mapping of labels to Kubernetes resources."""

    overrides: tuple[tuple[str, Override], ...] = key(
        "overrides", MapOf(Record(Override, nulls=True), "a mapping", may_be_empty=True), "", ()
    )
    template: Template = key(
        "template", _template("template", ("Group", "Resource")), "", Template("")
    )
    namespaced: bool = key("namespaced", kinds.YES_NO, "", True)


@dataclass(frozen=True, slots=True)
class SeriesFilter:
    """A regular expression that names of series must match, or one that they must not."""

    wanted: str = key("is", kinds.STRING, "", "")
    unwanted: str = key("isNot", kinds.STRING, "", "")

    def checked(self, place: Place) -> SeriesFilter:
        """Return it (MistakesError: it has both, or none of them)."""
        if bool(self.wanted) == bool(self.unwanted):
            found = "both" if self.wanted else "none of them"
            place.refuse(f"expected one of is and isNot, got {found}")
        return self

    def read(self) -> tuple[re.Pattern[str], str]:
        """Return the expression, and why it is none that Go and Python share."""
        return _regexp("is" if self.wanted else "isNot", self.wanted or self.unwanted)


@dataclass(frozen=True, slots=True)
class Naming:
    """How a series' name becomes a metric's."""

    matches: str = key("matches", kinds.STRING, "", "")
    form: str = key("as", kinds.STRING, "", "")

    def checked(self, place: Place) -> Naming:
        """Return it (MistakesError: it does not say which group is the name)."""
        groups = self.read()[0].groups
        if not self.form and groups > 1:
            wrong = f"expected the key as: name.matches has {groups} groups"
            place.refuse(wrong, "say which group is meant")
        return replace(self, form=self.form or ("$1" if groups else "$0"))

    def read(self) -> tuple[re.Pattern[str], str]:
        """Return the expression, and why it is none that Go and Python share."""
        return _regexp("matches", self.matches or "(?s).*")


_RESOURCES: Final = Record(ResourceMapping, nulls=True)


@dataclass(frozen=True, slots=True)
class Rule:
    """One of `rules` or `externalRules`.

    Attributes:
        place: file and path, for messages.
        series_query: the selector of /api/v1/series by which series are found.
        query: the template of the PromQL that is asked.
    """

    series_query: str = key("seriesQuery", kinds.text())
    filters: tuple[SeriesFilter, ...] = key(
        "seriesFilters",
        ListOf(Record(SeriesFilter, nulls=True), "a list", 1_000_000, only_lists=True, least=0),
        "", (),
    )  # fmt: skip
    resources: ResourceMapping = key("resources", _RESOURCES, "", ResourceMapping())
    name: Naming = key("name", Record(Naming, nulls=True), "", Naming(form="$0"))
    query: Template = key(
        "metricsQuery", _template("metricsQuery", _QUERY_FIELDS), "",
        Template("", "the rule has no metricsQuery"),
    )  # fmt: skip
    place: str = ""

    def checked(self, place: Place) -> Rule:
        """Return it with a bare selector, and without an empty query."""
        query = self.query if self.query.text else Template("", "the rule has no metricsQuery")
        return replace(self, series_query=self.series_query.strip(), query=query)

    @property
    def problem(self) -> str:
        """Why this package cannot follow the rule; "": it can."""
        patterns: tuple[SeriesFilter | Naming, ...] = (*self.filters, self.name)
        read = (self.resources.template.problem, *(one.read()[1] for one in patterns))
        return next(filter(None, (*read, self.query.problem)), "")

    def metric_name(self, series: str) -> str | None:
        """Return the metric that a series makes, None where it is none of this rule's."""
        for one in self.filters:
            if (one.read()[0].search(series) is not None) != bool(one.wanted):
                return None
        found = self.name.read()[0].search(series)
        return None if found is None else _expand(self.name.form, found)


@dataclass(frozen=True, slots=True)
class ResourceRule:
    """The rule for cpu or memory; `query` is that of containers."""

    container_label: str = key("containerLabel", kinds.text())
    query: Template = key(
        "containerQuery", _template("containerQuery", _QUERY_FIELDS), "", Template("")
    )
    of_nodes: str = key("nodeQuery", kinds.STRING, "", "")
    resources: ResourceMapping = key("resources", _RESOURCES, "", ResourceMapping())
    place: str = ""


_DURATION: Final = kinds.duration()
# ("" as the chart writes it where none is said)
_WINDOW: Final = Scalar(_DURATION.wants, lambda value: 0 if value == "" else _DURATION.parse(value))


@dataclass(frozen=True, slots=True)
class ResourceRules:
    """The rules for cpu and memory."""

    cpu: ResourceRule = key("cpu", Record(ResourceRule, nulls=True))
    memory: ResourceRule = key("memory", Record(ResourceRule, nulls=True))
    window_ms: int = key("window", _WINDOW, "", 0)


_RULES: Final = ListOf(Record(Rule, nulls=True), "a list", 1_000_000, only_lists=True, least=0)


@dataclass(frozen=True, slots=True)
class AdapterConfig:
    """A configuration; without `resource_rules` the adapter served no cpu and memory."""

    rules: tuple[Rule, ...] = key("rules", _RULES, "", ())
    external_rules: tuple[Rule, ...] = key("externalRules", _RULES, "", ())
    resource_rules: ResourceRules | None = key(
        "resourceRules", Record(ResourceRules, nulls=True), "", None
    )
    place: str = ""


def read_adapter(document: Place, mistakes: Mistakes) -> AdapterConfig:
    """Return the configuration that a document is, with its mistakes noted."""
    rules = document.at("rules")
    if isinstance(rules.value, Mapping):
        wrong = "expected the adapter's configuration, got values of a Helm chart"
        fix = "give the ConfigMap that the chart makes of them (kubectl get configmap -o yaml)"
        mistakes.add(rules.problem(wrong, fix))
        return AdapterConfig()
    return mistakes.tried(Record(AdapterConfig, nulls=True).read, document) or AdapterConfig()


@lru_cache(maxsize=4096)
def _regexp(name: str, text: str) -> tuple[re.Pattern[str], str]:
    try:
        if "[:" in text:
            raise re.error("a class of POSIX")
        return re.compile(text, re.ASCII), ""
    except (re.error, RecursionError, OverflowError) as error:
        told = f"expected a plain regular expression, got {show(text)} ({error})"
        return re.compile("(?!)"), f"{name}: {told}; {_WRITE}"


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
    objects = [namespace] if resource == NAMESPACES else names
    promql, label = _promql(rule.query, series, rule.resources, scope, selector, resource, objects)
    return AdapterQuery(promql, label, rule.place, note)


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
    promql, _ = _promql(rule.query, series, rule.resources, scope, selector)
    return AdapterQuery(promql, "", rule.place, note)


def resource_query(
    config: AdapterConfig, resource: str, namespace: str, pods: Sequence[str]
) -> ResourceQuery | None:
    """Return the adapter's query for `cpu` or `memory` of pods, None where it has none.

    Raises:
        ValueError: why it cannot be asked so; a sentence.
    """
    if config.resource_rules is None:
        return None
    rule: ResourceRule = getattr(config.resource_rules, resource)
    promql, label = _promql(
        rule.query, "", rule.resources, namespace, "", PODS, pods, f",{rule.container_label}"
    )
    return ResourceQuery(promql, label, rule.container_label, config.resource_rules.window_ms)


def label_of(mapping: ResourceMapping, resource: Resource) -> str:
    """Return the label that names objects of a resource.

    Raises:
        ValueError: there is none, or it is not the same at each start of the adapter.
    """
    labels = [
        label for label, one in mapping.overrides if resource.is_named(one.group, one.resource)
    ]
    if len(labels) > 1:
        raise ValueError(
            f"resources.overrides has several labels for {resource} ({', '.join(labels)}), of "
            "which the adapter takes one at random: leave the one that counts in a copy"
        )
    if labels:
        return labels[0]
    if not mapping.template.text:
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
    overrides, form = dict(mapping.overrides), None
    with suppress(ValueError, re.error):  # the template has a problem
        form = re.compile(
            mapping.template.filled({"Group": "(?P<group>.+?)", "Resource": "(?P<resource>.+?)"})
        )
    for label in labels:
        if (override := overrides.get(label)) is not None:
            named = (override.group, override.resource)
        elif (
            form is not None and "resource" in form.groupindex and (groups := form.fullmatch(label))
        ):
            named = (groups.groupdict().get("group") or "", groups["resource"])
        else:
            continue
        if resource.is_named(*named):
            return True
    return False


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


def _promql(
    query: Template,
    series: str,
    mapping: ResourceMapping,
    namespace: str,
    selector: str,
    resource: Resource | None = None,
    names: Sequence[str] = (),
    more_groups: str = "",
) -> tuple[str, str]:
    """Return a template filled in, and the label of its objects.

    The matchers are those of the selector, the namespace ("": any) and the objects (None: the
    adapter fills nothing in for .GroupBy).
    """
    matchers, values, label = [], {}, ""
    for one in parse_selector(selector).requirements:
        matchers.append(_matcher(one))
        values[one.key] = "|".join(sorted(one.values))
    if namespace:
        space = label_of(mapping, NAMESPACES)
        matchers.append(f"{space}={go_quote(namespace)}")
        values[space] = namespace
    if resource is not None:
        label, value = label_of(mapping, resource), "|".join(names)
        # The adapter uses several names as a pattern.
        is_pattern = len(names) != 1 or "$" in names[0]
        matchers.append(f"{label}{'=~' if is_pattern else '='}{go_quote(value)}")
        values[label] = value
    fields = {
        "Series": series, "LabelMatchers": ",".join(matchers), "GroupBy": label + more_groups,
    }  # fmt: skip
    promql = query.filled(fields, values)
    if not promql.strip():
        raise ValueError("the template makes an empty query")
    return promql, label


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
