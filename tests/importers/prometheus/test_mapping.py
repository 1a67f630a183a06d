"""Mapping files and which file is which: what is read, for which metric it counts, all mistakes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from hpabatch.errors import RefusedError, UsageError
from hpabatch.importers.prometheus.client.queries import Scalable
from hpabatch.importers.prometheus.metrics.adapter import Found
from hpabatch.importers.prometheus.metrics.mapping import Mappings, read_mappings
from hpabatch.importers.prometheus.metrics.queries import MetricQuery, ValueRule
from tests.importers.mutations import says
from tests.importers.prometheus.mapping_help import (
    external_metric,
    hpa_of,
    object_metric,
    pods_metric,
    write,
)

ADAPTER = """
rules:
- seriesQuery: 'http_requests_total{namespace!=""}'
  resources: {template: "<<.Resource>>"}
  name: {matches: "^(.*)_total$", as: "${1}_per_second"}
  metricsQuery: 'sum(rate(<<.Series>>{<<.LabelMatchers>>}[2m])) by (<<.GroupBy>>)'
"""
EXTERNAL = """
externalRules:
- seriesQuery: 'depth'
  resources: {namespaced: false}
  metricsQuery: '<<.Series>>{<<.LabelMatchers>>}'
"""
SCALED = """
apiVersion: keda.sh/v1alpha1
kind: ScaledObject
metadata: {name: web, namespace: shop}
spec:
  scaleTargetRef: {name: web}
  minReplicaCount: 1
  triggers:
  - type: prometheus
    metadata: {query: sum(x), threshold: "5", serverAddress: "http://me:secret@p"}
"""
FOUND: Found = {
    'http_requests_total{namespace!=""}': {"http_requests_total": {"namespace", "pod"}},
    "depth": {"depth": ()},
}
PODS_QUERY = 'x{namespace="$namespace",pod=~"$pods"}'


def mapping(*metrics: dict[str, Any], **others: Any) -> dict[str, Any]:
    return ({"metrics": list(metrics)} if metrics else {}) | others


def entry(of: str = "external", name: str = "m", query: str = "x", **more: Any) -> dict[str, Any]:
    return {"type": of, "name": name, "query": query, **more}


def read(folder: Path, *values: str | dict[str, Any]) -> Mappings:
    return read_mappings(
        [write(folder, value, f"{place}.yaml") for place, value in enumerate(values)]
    )


def one_query(mappings: Mappings, metric: dict[str, Any], namespace: str = "shop") -> MetricQuery:
    plan = mappings.plan([hpa_of(metric, namespace=namespace)], FOUND)
    assert not plan.unmapped
    (query,) = plan.queries
    return query


def reason_of(mappings: Mappings, metric: dict[str, Any], namespace: str = "shop") -> str:
    plan = mappings.plan([hpa_of(metric, namespace=namespace)], FOUND)
    assert not plan.queries
    (unmapped,) = plan.unmapped
    assert unmapped.hpa == f"{namespace}/web"
    return str(unmapped)


def test_placeholders_are_filled(tmp_path: Path) -> None:
    mappings = read(tmp_path, mapping(
        entry("pods", query='x{namespace="$namespace",pod=~"$pods",$selector}'),
        entry("object", query='label_replace(y{n="$namespace",o="$object"}, "a", "${b}$1", "c", '
                              '"(?P<b>.)")'),
        entry(query="z{$selector}"),
    ))  # fmt: skip
    selector = {"matchExpressions": [{"key": "q", "operator": "In", "values": ["b", "a"]}]}
    query = one_query(mappings, pods_metric("m", selector))
    assert query.promql == 'x{namespace="shop",pod=~"$pods",q=~"a|b"}'
    assert query.text(["p-1", "p-2"]) == 'x{namespace="shop",pod=~"p-1|p-2",q=~"a|b"}'
    assert query.selector == "q in (a,b)"
    assert (query.kind, query.label, query.rule) == ("pods", "pod", ValueRule.plain)
    query = one_query(mappings, object_metric("m", "Service", "front"))
    assert query.promql == ('label_replace(y{n="shop",o="front"}, "a", "${b}$1", "c", "(?P<b>.)")')
    assert (query.object_kind, query.object_name, query.label) == ("Service", "front", "")
    assert one_query(mappings, external_metric("m")).promql == "z{}"


def test_the_first_entry_that_fits_counts(tmp_path: Path) -> None:
    mappings = read(tmp_path, mapping(
        entry(query="one", namespace="shop"),
        entry(query="two", namespace=["a", "b-*"]),
        entry(query="three", selector="q=x"),
        entry(query="four{$selector}"),
        entry("object", query="five", kind="Ingress", object="front-*"),
        entry("object", query="six", label="service"),
    ))  # fmt: skip
    assert one_query(mappings, external_metric("m")).promql == "one"
    for namespace in ("a", "b-1"):
        assert one_query(mappings, external_metric("m"), namespace).promql == "two"
    wanted = external_metric("m", {"matchLabels": {"q": "x"}})
    assert one_query(mappings, wanted, "other").promql == "three"
    wanted = external_metric("m", {"matchLabels": {"q": "y"}})
    assert one_query(mappings, wanted, "other").promql == 'four{q="y"}'
    ingress = object_metric("m", "Ingress", "front-1", "networking.k8s.io/v1")
    assert one_query(mappings, ingress).promql == "five"
    query = one_query(mappings, object_metric("m", "Ingress", "back", "networking.k8s.io/v1"))
    assert (query.promql, query.label) == ("six", "service")


def test_a_selector_that_an_entry_ignores_is_no_mapping(tmp_path: Path) -> None:
    mappings = read(tmp_path, mapping(entry()))
    reason = reason_of(mappings, external_metric("m", {"matchLabels": {"q": "x"}}))
    assert "the metric has the selector q=x, of which the entry says nothing" in reason


def test_the_kinds_of_files_and_which_goes_first(tmp_path: Path) -> None:
    config_map = yaml.safe_dump(
        {"kind": "ConfigMap", "metadata": {"name": "x"}, "data": {"config.yaml": ADAPTER}}
    )
    mappings = read(tmp_path, config_map, EXTERNAL, SCALED, mapping(entry("pods", "mine",
                                                                        PODS_QUERY)))  # fmt: skip
    owner = {"matchLabels": {"scaledobject.keda.sh/name": "web"}}
    found = {
        "http_requests_per_second": pods_metric("http_requests_per_second"),
        "depth": external_metric("depth", {"matchLabels": {"q": "x"}}),
        "s0-prometheus": external_metric("s0-prometheus", owner),
        "mine": pods_metric("mine"),
    }
    rules = {name: one_query(mappings, metric).rule for name, metric in found.items()}
    assert rules == {
        "http_requests_per_second": ValueRule.adapter,
        "depth": ValueRule.adapter_external,
        "s0-prometheus": ValueRule.keda,
        "mine": ValueRule.plain,
    }
    places = {name: one_query(mappings, metric).place for name, metric in found.items()}
    assert places["http_requests_per_second"].endswith(
        '0.yaml: data["config.yaml"], line 3: rules[0]'
    )
    assert places["s0-prometheus"].endswith("ScaledObject shop/web: spec.triggers[0]")
    assert mappings.series_selectors() == ('http_requests_total{namespace!=""}', "depth")
    assert mappings.notes() == ["KEDA asked http://p: --url must be a server with these series"]
    # A mapping file goes before both others.
    own = mapping(entry("external", "s0-prometheus", "a{$selector}",
                        selector="scaledobject.keda.sh/name=web"),
                  entry("pods", "http_requests_per_second", PODS_QUERY))  # fmt: skip
    own["metrics"][0]["query"] = "a"
    mappings = read(tmp_path, ADAPTER, SCALED, own)
    assert one_query(mappings, found["s0-prometheus"]).promql == "a"
    assert one_query(mappings, found["http_requests_per_second"]).rule == ValueRule.plain


def test_queries_are_shared_and_series_asked_once(tmp_path: Path) -> None:
    mappings = read(tmp_path, ADAPTER, EXTERNAL)
    metric = pods_metric("http_requests_per_second")
    hpas = [hpa_of(metric, metric, name="b"), hpa_of(metric, name="a"),
            hpa_of(metric, name="c", namespace="other"), hpa_of(metric, name="b")]  # fmt: skip
    plan = mappings.plan(hpas, FOUND)
    assert [(q.namespace, q.hpas) for q in plan.queries] == [
        ("other", ("c",)),
        ("shop", ("a", "b")),
    ]
    names = {selector: ["http_requests_total", "other"] for selector in FOUND}
    assert mappings.wanted_series(hpas, names) == [
        ('http_requests_total{namespace!=""}', "http_requests_total",
         'http_requests_total{namespace!=""}')
    ]  # fmt: skip
    assert mappings.wanted_series([hpa_of(external_metric("depth"))], names) == []


@pytest.mark.parametrize(
    ("metric", "reason"),
    [
        (pods_metric("none"), "makes a metric none for pods"),
        (external_metric("none"), "its values in Prometheus are not known"),
        (external_metric("s0-prometheus", {"matchLabels": {"scaledobject.keda.sh/name": "w"}}),
         "of the ScaledObject shop/w, which is not among the files"),
        (external_metric("s9-x", {"matchLabels": {"scaledobject.keda.sh/name": "web"}}),
         "has no trigger for it"),
        (external_metric("m", {"matchExpressions": [{"key": "a", "operator": "Like"}]}),
         "the controller refuses its selector"),
    ],
)  # fmt: skip
def test_what_has_no_query_is_named_with_its_hpa(
    metric: dict[str, Any], reason: str, tmp_path: Path
) -> None:
    assert reason in reason_of(read(tmp_path, ADAPTER, SCALED), metric)


def test_resources_and_broken_metrics_are_nobodys_business(tmp_path: Path) -> None:
    cpu = {"type": "Resource", "resource": {"name": "cpu", "target": {"type": "Utilization"}}}
    plan = read(tmp_path, ADAPTER).plan([hpa_of(cpu, {"type": "Pods"})])
    assert not plan.queries
    assert not plan.unmapped


def test_scalables(tmp_path: Path) -> None:
    found = read(tmp_path, {"scalables": {
        "Rollout": {"label": "rollout", "spec": "a_spec", "status": "a_status"},
        "Fleet": {"label": "fleet", "spec": "b:spec"},
    }})  # fmt: skip
    assert found.scalables == (
        Scalable("Rollout", "rollout", "a_spec", "a_status"),
        Scalable("Fleet", "fleet", "b:spec", "b:spec"),
    )


@pytest.mark.parametrize(
    ("value", "mistake"),
    [
        (mapping(entry("queue")), "metrics[0].type: expected one of pods, object, external, got '"),
        (mapping(entry(querry="x")), "; did you mean query?"),
        (mapping(entry(label="pod")), "metrics[0].label: expected one of type, name, query, names"),
        (mapping(entry("pods", query="x")),
         "metrics[0].query: expected $namespace and $pods in a query for pods"),
        (mapping(entry("pods", query=PODS_QUERY, label="a-b")),
         "metrics[0].label: expected the name of a label, got 'a-b'"),
        (mapping(entry(query="x{$pod}")),
         "metrics[0].query: expected one of $namespace, $selector, got $pod"),
        (mapping(entry(query="x{$selektor}")),
         "; did you mean selector? (a group of label_replace is written ${se"),
        (mapping(entry(query="x{a='{{ .Values.a }}'}")), "unrendered Helm template"),
        (mapping(entry(selector="a in")),
         "metrics[0].selector: expected a label selector such as queue=orders, got 'a in':"),
        (mapping(entry(namespace=[1])),
         "metrics[0].namespace[0]: expected a name, got 1"),
        (mapping(scalables={"A": {"label": "a"}}),
         "scalables.A.spec: expected the name of a series, got nothing"),
        ("kind: Deployment\n---\nkind: Service\n---\nfoo: 1",
         "expected the configuration of prometheus-adapter or its ConfigMap, ScaledObjec"),
        ("", "got no document"),
        ("rules: []\nrules: []", "expected the key 'rules' once, got it twice"),
        ("rules: [", "not YAML"),
        ("kind: ConfigMap\ndata: {config.yaml: 'rules: ['}", 'data["config.yaml"]: not YAML'),
        ("kind: ConfigMap\ndata: {a: 'rules: []\n\n  rules: []'}",
         'data["a"], line 2; first in line 1: expected the key \'rules\' once, got it twice'),
        ("kind: ConfigMap\ndata: {a: x}", "got ConfigMap"),
        ("kind: ConfigMap\ndata: {a: 'rulez: 1'}", "got ConfigMap"),
    ],
)  # fmt: skip
def test_mistakes_name_file_and_path(
    value: str | dict[str, Any], mistake: str, tmp_path: Path
) -> None:
    with pytest.raises(UsageError) as refused:
        read(tmp_path, value)
    assert says(str(refused.value), mistake)
    assert f"mapping {tmp_path}" in str(refused.value)


def test_usage_rules_that_cannot_be_followed_are_refused(tmp_path: Path) -> None:
    rule = {"containerQuery": "x{<<range .LabelMatchersByName>>}", "containerLabel": "c",
            "resources": {"template": "<<.Resource>>"}}  # fmt: skip
    found = read(tmp_path, {"resourceRules": {"cpu": rule, "memory": rule}})
    with pytest.raises(RefusedError, match=r"resourceRules\.cpu: .*expected <<\.Series>>"):
        found.resource_query("cpu", "shop", ["web-1"])


def test_all_mistakes_of_all_files_in_one_message(tmp_path: Path) -> None:
    with pytest.raises(UsageError) as refused:
        read(tmp_path, mapping(entry(x=1), entry(z=2)), ADAPTER + "\nz: 3", SCALED + "\n" + SCALED)
    text = str(refused.value)
    assert ": metrics[0].x)" in text
    assert ": metrics[1].z)" in text
    assert ": z)" in text
    assert "expected the key 'apiVersion' once, got it twice" in text


def test_what_can_be_there_once(tmp_path: Path) -> None:
    with pytest.raises(
        UsageError, match=r"expected rules once, got them in .*0\.yaml.* and in .*1\.yaml"
    ):
        read(tmp_path, ADAPTER, ADAPTER)
    with pytest.raises(UsageError, match=r"expected it once, got .*ScaledObject shop/web and"):
        read(tmp_path, f"{SCALED}\n---\n{SCALED}")
    kinds = {"scalables": {"Rollout": {"label": "a", "spec": "b"}}}
    with pytest.raises(UsageError, match=r"expected scalables\.Rollout once, got it in two files"):
        read(tmp_path, kinds, kinds)
    read(tmp_path, ADAPTER, EXTERNAL)


def test_a_folder_holds_what_it_holds(tmp_path: Path) -> None:
    (tmp_path / "deep").mkdir()
    write(tmp_path, SCALED, "deep/so.yml")
    write(tmp_path, "kind: Deployment", "deployment.yaml")
    write(tmp_path, "a: {{ .Values.x }}", "template.yaml")
    write(tmp_path, "rules: [", ".hidden.yaml")
    write(tmp_path, "not yaml: [", "notes.txt")
    mappings = read_mappings([tmp_path])
    assert [one.name for one in mappings.scaled_objects] == ["web"]
    assert "template.yaml: left out: looks like an unrendered Helm template" in mappings.notes()[0]
    (tmp_path / "empty").mkdir()
    with pytest.raises(
        UsageError, match=r"expected the configuration .* got nothing of that .*empty"
    ):
        read_mappings([tmp_path / "empty"])


def test_lists_and_several_documents(tmp_path: Path) -> None:
    scaled = [yaml.safe_load(SCALED) for _ in range(2)]
    scaled[1]["metadata"]["name"] = "other"
    mappings = read(tmp_path, yaml.safe_dump({"kind": "List", "items": scaled}))
    assert [one.name for one in mappings.scaled_objects] == ["web", "other"]


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    binary = tmp_path / "binary.yaml"
    binary.write_bytes(b"\xff\x00")
    with pytest.raises(UsageError) as refused:
        read_mappings([tmp_path / "none.yaml", binary])
    assert "none.yaml cannot be read: No such file" in str(refused.value)
    assert "binary.yaml cannot be read: not YAML: a binary file" in str(refused.value)


def test_a_file_that_is_too_large(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("hpabatch.importers.prometheus.metrics.mapping.MAX_BYTES", 10)
    with pytest.raises(UsageError, match="expected at most 0 MiB, got more; split it"):
        read(tmp_path, ADAPTER)


def test_notes_of_many_scaled_objects_are_few(tmp_path: Path) -> None:
    free = SCALED.replace("minReplicaCount: 1", "minReplicaCount: 0")
    text = "\n---\n".join(free.replace("name: web,", f"name: web-{n},") for n in range(9))
    notes = read(tmp_path, text).notes()
    assert len(notes) == 2
    assert "ScaledObject shop/web-2 and 6 more: KEDA itself scales between 0 and 1" in notes[0]


def test_one_cluster_of_several(tmp_path: Path) -> None:
    query = one_query(read(tmp_path, ADAPTER), pods_metric("http_requests_per_second"))
    assert query.text(["x"], 'cluster="a"') == (
        'sum(rate(http_requests_total{cluster="a",namespace="shop",pod=~"x"}[2m])) by (pod)'
    )


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-5, 5) | st.text("ab$<.", max_size=4),
    lambda inner: st.lists(inner, max_size=3)
    | st.dictionaries(
        st.sampled_from(["rules", "metrics", "scalables", "seriesQuery", "name", "query", "type",
                         "resources", "overrides", "kind", "externalRules", "selector"]),
        inner, max_size=4),
    max_leaves=12,
)  # fmt: skip


@given(JSON)
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_any_document_is_read_or_refused(tmp_path: Path, value: object) -> None:
    path = tmp_path / "any.yaml"
    path.write_text(yaml.safe_dump(value))
    try:
        mappings = read_mappings([path])
    except UsageError:
        return
    mappings.plan([hpa_of(pods_metric("a"), external_metric("b"))], {"a": {"a": {"a"}}})
