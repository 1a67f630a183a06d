"""prometheus-adapter's configuration: what is read, which series make which metric, the PromQL.

Expected queries are those of upstream's own tests (pkg/naming) and documentation, in our words.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from hpabatch.errors import UsageError
from hpabatch.importers.prometheus.metrics.adapter import (
    NAMESPACES,
    PODS,
    AdapterConfig,
    Rule,
    custom_query,
    external_query,
    label_of,
    metric_names,
    narrowed,
    read_adapter,
    resource_of,
    resource_query,
    selector_matchers,
    series_selectors,
)
from hpabatch.inputs.documents import Mistakes, Place
from tests.importers.mutations import says
from tests.importers.prometheus.mapping_help import refused_by_promtool

# The rules that a default configuration had, with a prefix of labels.
DEFAULT = """
rules:
- seriesQuery: '{__name__=~"^container_.*",container!="POD",namespace!="",pod!=""}'
  seriesFilters: []
  resources: {overrides: {namespace: {resource: namespace}, pod: {resource: pod}}}
  name: {matches: "^container_(.*)_seconds_total$", as: ""}
  metricsQuery: 'sum(rate(<<.Series>>{<<.LabelMatchers>>,container!="POD"}[5m])) by (<<.GroupBy>>)'
- seriesQuery: '{__name__=~"^container_.*",container!="POD",namespace!="",pod!=""}'
  seriesFilters: [{isNot: "^container_.*_seconds_total$"}]
  resources: {overrides: {namespace: {resource: namespace}, pod: {resource: pod}}}
  name: {matches: "^container_(.*)_total$"}
  metricsQuery: 'sum(rate(<<.Series>>{<<.LabelMatchers>>,container!="POD"}[5m])) by (<<.GroupBy>>)'
- seriesQuery: '{__name__=~"^container_.*",container!="POD",namespace!="",pod!=""}'
  seriesFilters: [{isNot: "^container_.*_total$"}]
  resources: {overrides: {namespace: {resource: namespace}, pod: {resource: pod}}}
  name: {matches: "^container_(.*)$"}
  metricsQuery: 'sum(<<.Series>>{<<.LabelMatchers>>,container!="POD"}) by (<<.GroupBy>>)'
- seriesQuery: '{kube_namespace!="",__name__!~"^container_.*"}'
  seriesFilters: [{isNot: ".*_total$"}]
  resources: {template: "kube_<<.Resource>>"}
  metricsQuery: 'sum(<<.Series>>{<<.LabelMatchers>>}) by (<<.GroupBy>>)'
- seriesQuery: '{kube_namespace!="",__name__!~"^container_.*"}'
  seriesFilters: [{isNot: ".*_seconds_total"}]
  resources: {template: "kube_<<.Resource>>"}
  name: {matches: "^(.*)_total$"}
  metricsQuery: 'sum(rate(<<.Series>>{<<.LabelMatchers>>}[5m])) by (<<.GroupBy>>)'
"""
CONTAINERS = '{__name__=~"^container_.*",container!="POD",namespace!="",pod!=""}'
OTHERS = '{kube_namespace!="",__name__!~"^container_.*"}'
CADVISOR = {"namespace", "pod", "container", "id"}
FOUND = {
    CONTAINERS: {
        "container_cpu_usage_seconds_total": CADVISOR,
        "container_network_receive_bytes_total": CADVISOR,
        "container_memory_usage_bytes": CADVISOR,
    },
    OTHERS: {
        "queue_length": {"kube_namespace", "kube_service", "kube_pod"},
        "http_requests_total": {"kube_namespace", "kube_service", "verb"},
    },
}


def config_of(text: str | dict[str, Any]) -> AdapterConfig:
    mistakes = Mistakes()
    value = yaml.safe_load(text) if isinstance(text, str) else text
    found = read_adapter(Place("adapter.yaml", "", value), mistakes)
    mistakes.refuse()
    return found


def rule_of(**fields: Any) -> Rule:
    rule = {"seriesQuery": "foo", "metricsQuery": "<<.LabelMatchers>>", **fields}
    return config_of({"rules": [rule]}).rules[0]


def config_with(query: str, external: bool = False, **resources: Any) -> AdapterConfig:
    """Return one rule of the series `foo`, whose labels are named like their resources."""
    mapping = resources or {"template": "<<.Resource>>"}
    rule = {"seriesQuery": "foo", "resources": mapping, "metricsQuery": query}
    return config_of({"externalRules" if external else "rules": [rule]})


FOO = {"foo": {"foo": {"pod", "namespace", "service"}}}


@pytest.mark.parametrize(
    ("metric", "resource", "wanted"),
    [
        ("cpu_usage", PODS, 'sum(rate(container_cpu_usage_seconds_total{namespace="shop",'
         'pod=~"a|b",container!="POD"}[5m])) by (pod)'),
        ("network_receive_bytes", PODS, 'sum(rate(container_network_receive_bytes_total{'
         'namespace="shop",pod=~"a|b",container!="POD"}[5m])) by (pod)'),
        ("memory_usage_bytes", PODS, 'sum(container_memory_usage_bytes{namespace="shop",'
         'pod=~"a|b",container!="POD"}) by (pod)'),
        ("memory_usage_bytes", NAMESPACES, 'sum(container_memory_usage_bytes{namespace="shop",'
         'container!="POD"}) by (namespace)'),
        ("queue_length", PODS, 'sum(queue_length{kube_namespace="shop",kube_pod=~"a|b"}) '
         "by (kube_pod)"),
        ("http_requests", resource_of("Service", "v1"), 'sum(rate(http_requests_total{'
         'kube_namespace="shop",kube_service=~"a|b"}[5m])) by (kube_service)'),
    ],
)  # fmt: skip
def test_the_default_rules(metric: str, resource: Any, wanted: str, tmp_path: Path) -> None:
    found = custom_query(config_of(DEFAULT), FOUND, resource, metric, "shop", ["a", "b"])
    assert found.promql == wanted
    assert not found.note
    assert not refused_by_promtool(tmp_path, [wanted])


def test_what_no_series_makes_is_no_metric() -> None:
    config = config_of(DEFAULT)
    for metric, resource in (("nothing", PODS), ("http_requests", PODS)):
        with pytest.raises(ValueError, match=f"makes a metric {metric} for pods"):
            custom_query(config, FOUND, resource, metric, "shop", ["a"])
    assert series_selectors(config) == (CONTAINERS, OTHERS)


@pytest.mark.parametrize(
    ("query", "names", "selector", "wanted"),
    [
        ("series <<.Series>>", ["bar"], "", "series foo"),
        ("<<.LabelMatchers>>", ["bar", "baz"], "", 'namespace="shop",pod=~"bar|baz"'),
        ("<<.LabelMatchers>>", ["bar"], "", 'namespace="shop",pod="bar"'),
        ("<<.LabelMatchers>>", ["bar"], "m=v", 'm="v",namespace="shop",pod="bar"'),
        ('<<index .LabelValuesByName "pod">>', ["bar"], "", "bar"),
        ('<<index .LabelValuesByName "pod">>', ["bar", "baz"], "", "bar|baz"),
        ('<<index .LabelValuesByName "namespace">> <<index .LabelValuesByName "pod">>',
         ["bar", "baz"], "", "shop bar|baz"),
        ("<<.GroupBy>>", ["bar"], "", "pod"),
        ('<<index .LabelValuesByName "x">>', ["bar"], "x in (b,a)", "a|b"),
    ],
)  # fmt: skip
def test_what_templates_get(query: str, names: list[str], selector: str, wanted: str) -> None:
    found = custom_query(config_with(query), FOO, PODS, "foo", "shop", names, selector)
    assert found.promql == wanted
    assert found.label == "pod"
    assert found.place == "adapter.yaml: rules[0]"


@pytest.mark.parametrize(
    ("selector", "wanted"),
    [
        ("", []),
        ("foo=bar", ['foo="bar"']),
        ("foo==bar", ['foo="bar"']),
        ("foo!=bar", ['foo!="bar"']),
        ("qux in (baz,bar)", ['qux=~"bar|baz"']),
        ("qux in (b.r)", ['qux=~"b.r"']),
        ("qux notin (bar)", ['qux!~"bar"']),
        ("foo", ['foo!=""']),
        ("!foo", ['foo=""']),
        ("b=2,a=1", ['a="1"', 'b="2"']),
    ],
)
def test_selectors_become_matchers(selector: str, wanted: list[str]) -> None:
    assert selector_matchers(selector) == wanted


@pytest.mark.parametrize(
    ("selector", "reason"),
    [
        ("a>1", "compares numbers"),
        ("a<1", "compares numbers"),
        ("app.kubernetes.io/name=x", "'app.kubernetes.io/name', which is no name of a label"),
    ],
)
def test_selectors_that_no_query_can_say(selector: str, reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        external_query(config_with("x", external=True), FOO, "foo", "shop", selector)


def test_external_metrics_have_the_namespace_unless_it_is_turned_off() -> None:
    query = "<<.Series>>{<<.LabelMatchers>>}[<<.GroupBy>>]"
    namespaced = {"overrides": {"ns": {"resource": "namespace"}}}
    found = external_query(config_with(query, True, **namespaced), FOO, "foo", "shop", "q=a")
    assert (found.promql, found.label) == ('foo{q="a",ns="shop"}[]', "")
    for mapping in ({"namespaced": False}, {"namespaced": False, **namespaced}):
        found = external_query(config_with(query, True, **mapping), FOO, "foo", "shop", "q=a")
        assert found.promql == 'foo{q="a"}[]'
    with pytest.raises(ValueError, match="no label for namespaces"):
        external_query(config_with(query, True, overrides={}), FOO, "foo", "shop")
    with pytest.raises(ValueError, match="makes a metric bar"):
        external_query(config_with(query, True), FOO, "bar", "shop")


@pytest.mark.parametrize(
    ("fields", "series", "metric"),
    [
        ({}, "foo_total", "foo_total"),
        ({"name": {"matches": "^(.*)_total$"}}, "foo_total", "foo"),
        ({"name": {"matches": "^.*_total$"}}, "foo_total", "foo_total"),
        ({"name": {"matches": "^(.*)_total$", "as": "${1}_per_second"}}, "foo_total",
         "foo_per_second"),
        ({"name": {"matches": "^(.*)_total$", "as": "$1_per_second"}}, "foo_total", ""),
        ({"name": {"matches": "^(?P<what>.*)_(.*)$", "as": "$2-${what}$$"}}, "foo_total",
         "total-foo$"),
        ({"name": {"matches": "o+", "as": "<$0>"}}, "foo_total", "<oo>"),
        ({"name": {"matches": "^bar"}}, "foo_total", None),
        ({"name": {"as": "fixed"}}, "foo_total", "fixed"),
        ({"seriesFilters": [{"is": "^foo"}, {"isNot": "_sum$"}]}, "foo_total", "foo_total"),
        ({"seriesFilters": [{"is": "^foo"}, {"isNot": "_total$"}]}, "foo_total", None),
        ({"name": {"matches": "(?i)^FOO_(.*)"}}, "foo_total", "total"),
    ],
)  # fmt: skip
def test_series_are_named(fields: dict[str, Any], series: str, metric: str | None) -> None:
    rule = rule_of(**fields)
    assert not rule.problem
    assert rule.metric_name(series) == metric


def test_of_several_series_the_last_counts_and_that_is_told() -> None:
    rule = {"seriesQuery": "q", "metricsQuery": "<<.Series>>", "name": {"as": "one"},
            "resources": {"template": "<<.Resource>>"}}  # fmt: skip
    config = config_of({"rules": [rule]})
    found = {"q": {"b": {"pod", "namespace"}, "a": {"pod"}, "c": {"service"}}}
    assert metric_names(config.rules[0], found["q"]) == {"one": ["a", "b", "c"]}
    query = custom_query(config, found, PODS, "one", "shop", ["x"])
    assert query.promql == "b"
    assert "b was taken, not a (adapter.yaml: rules[0])" in query.note
    # A later rule goes before an earlier one.
    config = config_of({"rules": [rule, {**rule, "metricsQuery": "second <<.Series>>"}]})
    query = custom_query(config, {"q": {"a": {"pod", "namespace"}}}, PODS, "one", "shop", ["x"])
    assert query.promql == "second a"
    assert "not a (adapter.yaml: rules[0])" in query.note


@pytest.mark.parametrize(
    ("kind", "api_version", "overrides", "label"),
    [
        ("Pod", "v1", {"pod_name": {"resource": "pods"}}, "pod_name"),
        ("Service", "", {"svc": {"resource": "service"}}, "svc"),
        ("Deployment", "apps/v1", {"micro": {"group": "apps", "resource": "deployment"}}, "micro"),
        ("Deployment", "apps/v1", {"micro": {"resource": "deployments"}}, "micro"),
        ("Deployment", "extensions/v1beta1", {"micro": {"resource": "deployment"}}, "micro"),
        ("Ingress", "networking.k8s.io/v1", {"i": {"resource": "ingress"}}, "i"),
        ("Ingress", "networking.k8s.io/v1", {"i": {"group": "networking", "resource": "ingresses"}},
         "i"),
        ("Brand", "cheese.io/v1", {"brand": {"group": "cheese.io", "resource": "brand"}}, "brand"),
        ("Gateway", "x.io/v1", {"gw": {"resource": "gateways"}}, "gw"),
        ("Ingress", "networking.k8s.io/v1", {"i": {"group": "other", "resource": "ingress"}}, None),
        ("Service", "serving.knative.dev/v1", {"svc": {"resource": "service"}}, None),
        ("Service", "serving.knative.dev/v1",
         {"svc": {"resource": "service"}, "ksvc": {"group": "serving", "resource": "services"}},
         "ksvc"),
    ],
)  # fmt: skip
def test_labels_of_kinds(kind: str, api_version: str, overrides: Any, label: str | None) -> None:
    config = config_with("<<.LabelMatchers>>", overrides=overrides)
    resource = resource_of(kind, api_version)
    if label is None:
        with pytest.raises(ValueError, match="has no label for"):
            label_of(config.rules[0].resources, resource)
    else:
        assert label_of(config.rules[0].resources, resource) == label


def test_labels_of_a_template_with_groups() -> None:
    config = config_with("<<.LabelMatchers>>", template="kube_<<.Group>>_<<.Resource>>",
                         overrides={"namespace": {"resource": "namespace"}})  # fmt: skip
    resource = resource_of("Deployment", "apps/v1")
    assert label_of(config.rules[0].resources, resource) == "kube_apps_deployment"
    labels = {"kube_apps_deployment", "namespace"}
    query = custom_query(config, {"foo": {"foo": labels}}, resource, "foo", "shop", ["web"])
    assert query.promql == 'namespace="shop",kube_apps_deployment="web"'
    ingress = resource_of("Ingress", "networking.k8s.io/v1")
    assert label_of(config.rules[0].resources, ingress) == "kube_networking_k8s_io_ingress"


def test_two_labels_of_one_resource_are_no_answer() -> None:
    config = config_with("x", overrides={
        "a": {"resource": "pod"}, "b": {"resource": "pods"}, "ns": {"resource": "namespace"},
    })  # fmt: skip
    with pytest.raises(ValueError, match=r"several labels for pods \(a, b\)"):
        custom_query(config, {"foo": {"foo": {"a"}}}, PODS, "foo", "shop", ["x"])


def test_namespaces_and_what_belongs_to_none() -> None:
    config = config_with("<<.LabelMatchers>> by <<.GroupBy>>")
    query = custom_query(config, FOO, NAMESPACES, "foo", "shop", ["whatever"])
    assert query.promql == 'namespace="shop" by namespace'
    with pytest.raises(ValueError, match="asks for nodes within its namespace"):
        custom_query(config, FOO, resource_of("Node", "v1"), "foo", "shop", ["n"])
    with pytest.raises(ValueError, match=r"such as networking.k8s.io/v1, got .*finds no Ingress"):
        resource_of("Ingress", "v1")


def test_a_rule_that_is_not_followed_hurts_its_metrics_only() -> None:
    rules: list[dict[str, Any]] = [
        {"seriesQuery": "good", "metricsQuery": "good"},
        {"seriesQuery": "bad", "metricsQuery": "<<range .GroupBySlice>><<.>><<end>>"},
        {"seriesQuery": "none"},
        {"seriesQuery": "odd", "metricsQuery": "x", "name": {"matches": r"\p{Greek}"}},
        {"seriesQuery": "posix", "metricsQuery": "x", "seriesFilters": [{"is": "^[[:alpha:]]"}]},
        {"seriesQuery": "cut", "metricsQuery": "<<.Series"},
        {"seriesQuery": "label", "metricsQuery": "x",
         "resources": {"template": '<<.Resource>><<index .LabelValuesByName "x">>'}},
    ]  # fmt: skip
    for rule in rules:
        rule.setdefault("resources", {"template": "<<.Resource>>"})
    config = config_of({"rules": rules})
    labels = {"pod", "namespace"}
    found = {name: {name: labels} for name in ("good", "bad", "none", "odd", "cut")}
    assert custom_query(config, found, PODS, "good", "shop", ["x"]).promql == "good"
    for name, reason in (
        ("bad", r"rules\[1\]: metricsQuery: expected <<.Series>>.* got <<range .*a mapping file"),
        ("none", r"rules\[2\]: the rule has"),
        ("odd", r"rules\[1\] could not be followed"),
        ("cut", r"rules\[5\]: metricsQuery: expected .* got <<.Series>>; write"),
    ):
        with pytest.raises(ValueError, match=reason):
            custom_query(config, found, PODS, name, "shop", ["x"])
    assert "got <<index .LabelValuesByName" in config.rules[6].problem
    assert config.rules[3].problem.startswith("matches: expected a plain regular expression")
    assert config.rules[4].problem.startswith("is: expected a plain regular expression")


def test_cpu_and_memory() -> None:
    rule = {
        "containerQuery": "sum(x{<<.LabelMatchers>>}) by (<<.GroupBy>>)",
        "nodeQuery": "y",
        "resources": {"template": "<<.Resource>>"},
        "containerLabel": "container_name",
    }
    config = config_of({"resourceRules": {"cpu": rule, "memory": rule, "window": "3m"}})
    found = resource_query(config, "cpu", "shop", ["a", "b"])
    assert found is not None
    assert found.promql == 'sum(x{namespace="shop",pod=~"a|b"}) by (pod,container_name)'
    assert (found.pod_label, found.container_label) == ("pod", "container_name")
    assert found.window_ms == 180_000
    assert resource_query(config_of({"rules": []}), "cpu", "shop", ["a"]) is None


@pytest.mark.parametrize(
    ("selector", "wanted"),
    [
        ("foo", "foo"),
        ('foo{a="b"}', 'foo{a="b"}'),
        ('{a="b"}', '{__name__="x",a="b"}'),
        (' { __name__=~"x.*" } ', '{__name__="x",__name__=~"x.*" }'),
        ("{}", '{__name__="x"}'),
    ],
)
def test_a_selector_is_narrowed_to_a_series(selector: str, wanted: str) -> None:
    assert narrowed(selector, "x").strip() == wanted


@pytest.mark.parametrize(
    ("text", "mistake"),
    [
        ("rulez: []", "; did you mean rules?"),
        ("rules: [{seriesQuery: a, metricQuery: b}]",
         "; did you mean metricsQuery?"),
        ("rules: [{seriesQuery: a, seriesFilters: [{}]}]",
         "rules[0].seriesFilters[0]: expected one of is and isNot, got none of them"),
        ("rules: [{seriesQuery: a, seriesFilters: [{is: a, isNot: b}]}]",
         "rules[0].seriesFilters[0]: expected one of is and isNot, got both"),
        ("rules: [{seriesQuery: a, name: {matches: '(a)(b)'}}]",
         "rules[0].name: expected the key as: name.matches has 2 groups"),
        ("resourceRules: {cpu: {containerQuery: a, containerLabel: b}}",
         "resourceRules.memory: expected a mapping, got nothing"),
        ("rules: {custom: [], default: true}",
         "rules: expected the adapter's configuration, got values of a Helm chart"),
    ],
)  # fmt: skip
def test_mistakes_name_file_and_path(text: str, mistake: str) -> None:
    with pytest.raises(UsageError) as refused:
        config_of(text)
    assert says(str(refused.value), mistake)
