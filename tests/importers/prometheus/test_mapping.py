"""Mapping files and which file is which: what is read, for which metric it counts, all mistakes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from hpabatch.errors import UsageError
from hpabatch.importers.prometheus.metrics.mapping import Mappings, read_mappings
from hpabatch.importers.prometheus.metrics.mapping_file import selector_matchers
from hpabatch.importers.prometheus.metrics.queries import MetricQuery, ValueRule
from tests.importers.mutations import says
from tests.importers.prometheus.mapping_help import (
    external_metric,
    hpa_of,
    object_metric,
    pods_metric,
    write,
)

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
    plan = mappings.plan([hpa_of(metric, namespace=namespace)])
    assert not plan.unmapped
    (query,) = plan.queries
    return query


def reason_of(mappings: Mappings, metric: dict[str, Any], namespace: str = "shop") -> str:
    plan = mappings.plan([hpa_of(metric, namespace=namespace)])
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


def test_mapping_files_go_before_scaled_objects(tmp_path: Path) -> None:
    owner = {"matchLabels": {"scaledobject.keda.sh/name": "web"}}
    metric = external_metric("s0-prometheus", owner)
    mappings = read(tmp_path, SCALED, mapping(entry("pods", "mine", PODS_QUERY)))
    found = [one_query(mappings, one) for one in (metric, pods_metric("mine"))]
    assert [query.rule for query in found] == [ValueRule.keda, ValueRule.plain]
    assert found[0].place.endswith("ScaledObject shop/web: spec.triggers[0]")
    assert mappings.notes() == []
    own = entry("external", "s0-prometheus", "a", selector="scaledobject.keda.sh/name=web")
    assert one_query(read(tmp_path, SCALED, mapping(own)), metric).promql == "a"


def test_queries_are_shared(tmp_path: Path) -> None:
    metric = pods_metric("mine")
    hpas = [hpa_of(metric, metric, name="b"), hpa_of(metric, name="a"),
            hpa_of(metric, name="c", namespace="other"), hpa_of(metric, name="b")]  # fmt: skip
    plan = read(tmp_path, mapping(entry("pods", "mine", PODS_QUERY))).plan(hpas)
    assert [(q.namespace, q.hpas) for q in plan.queries] == [
        ("other", ("c",)),
        ("shop", ("a", "b")),
    ]


@pytest.mark.parametrize(
    ("metric", "reason"),
    [
        (pods_metric("none"), "its values in Prometheus are not known"),
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
    assert reason in reason_of(read(tmp_path, SCALED), metric)


def test_resources_and_broken_metrics_are_nobodys_business(tmp_path: Path) -> None:
    cpu = {"type": "Resource", "resource": {"name": "cpu", "target": {"type": "Utilization"}}}
    plan = read(tmp_path, SCALED).plan([hpa_of(cpu, {"type": "Pods"})])
    assert not plan.queries
    assert not plan.unmapped


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
        selector_matchers(selector)


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
         "metrics[0].query: expected one of $namespace, $selector, $cluster, got $pod"),
        (mapping(entry(query="x{$selektor}")),
         "; did you mean selector? (a group of label_replace is written ${se"),
        (mapping(entry(query="x{a='{{ .Values.a }}'}")), "unrendered Helm template"),
        (mapping(entry(selector="a in")),
         "metrics[0].selector: expected a label selector such as queue=orders, got 'a in':"),
        (mapping(entry(namespace=[1])),
         "metrics[0].namespace[0]: expected a name, got 1"),
        ("kind: Deployment\n---\nkind: Service\n---\nfoo: 1",
         "expected ScaledObjects of KEDA, or a mapping file with `metrics`"),
        ("rules: []\n---\nkind: ConfigMap\ndata: {a: 'rules: []'}",
         "(for rules of prometheus-adapter write one: docs/prometheus.md), got ConfigMap, a mapp"),
        ("", "got no document"),
        ("metrics: []\nmetrics: []", "expected the key 'metrics' once, got it twice"),
        ("metrics: [", "not YAML"),
    ],
)  # fmt: skip
def test_mistakes_name_file_and_path(
    value: str | dict[str, Any], mistake: str, tmp_path: Path
) -> None:
    with pytest.raises(UsageError) as refused:
        read(tmp_path, value)
    assert says(str(refused.value), mistake)
    assert f"mapping {tmp_path}" in str(refused.value)


def test_all_mistakes_of_all_files_in_one_message(tmp_path: Path) -> None:
    with pytest.raises(UsageError) as refused:
        read(tmp_path, mapping(entry(x=1), entry(z=2)), SCALED + "\n" + SCALED)
    text = str(refused.value)
    assert ": metrics[0].x)" in text
    assert ": metrics[1].z)" in text
    assert "apiVersion stands twice: documents are separated by ---" in text


def test_what_can_be_there_once(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"expected it once, got .*ScaledObject shop/web and"):
        read(tmp_path, f"{SCALED}\n---\n{SCALED}")


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
        UsageError, match=r"expected ScaledObjects of KEDA, .* got nothing of that .*empty"
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
        read(tmp_path, SCALED)


def test_notes_of_many_scaled_objects_are_few(tmp_path: Path) -> None:
    free = SCALED.replace("minReplicaCount: 1", "minReplicaCount: 0")
    text = "\n---\n".join(free.replace("name: web,", f"name: web-{n},") for n in range(9))
    notes = read(tmp_path, text).notes()
    assert len(notes) == 1
    assert "ScaledObject shop/web-2 and 6 more: KEDA itself scales between 0 and 1" in notes[0]


def test_one_cluster_of_several(tmp_path: Path) -> None:
    told = mapping(entry("pods", query='x{$cluster, namespace="$namespace",pod=~"$pods"}'))
    query = one_query(read(tmp_path, told), pods_metric("m"))
    assert query.text(["w"], 'c="a"') == 'x{c="a",namespace="shop",pod=~"w"}'
    assert query.text(["w"]) == 'x{namespace="shop",pod=~"w"}'
    plan = read(tmp_path, mapping(entry())).plan([hpa_of(external_metric("m"))], several=True)
    assert not plan.queries
    assert "say it in a mapping file with $cluster" in str(plan.unmapped[0])


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-5, 5) | st.text("ab$<.", max_size=4),
    lambda inner: st.lists(inner, max_size=3)
    | st.dictionaries(
        st.sampled_from(["metrics", "name", "query", "type", "label", "kind", "spec",
                         "namespace", "selector"]),
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
    mappings.plan([hpa_of(pods_metric("a"), external_metric("b"))])
