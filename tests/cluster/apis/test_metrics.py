"""The fetcher: what it asks for, and what becomes of every kind of failure."""

from __future__ import annotations

import threading
from collections.abc import Set

import pytest

from hpabatch.cluster.apis.discovery import Resource
from hpabatch.cluster.apis.metrics import Fetcher
from hpabatch.cluster.connection.client import DEADLINE_ERROR
from hpabatch.cluster.connection.errors import ApiError, Refused
from hpabatch.cluster.objects.types import (
    ExternalMetricKey,
    MetricKey,
    ObjectMetricKey,
    PodMetricKey,
    Responses,
    SeriesSample,
    response_to,
)
from tests.cluster.asked import Asked, Kinds, Reply
from tests.cluster.wires import packed, wire, wire_bytes

_USAGE = "/apis/metrics.k8s.io/v1beta1"
_CUSTOM = "/apis/custom.metrics.k8s.io/v1beta1/namespaces/shop"
_EXTERNAL = "/apis/external.metrics.k8s.io/v1beta1/namespaces/shop"
_LIST = wire_bytes("pod_metrics_list")
_ONE = packed({"items": wire("custom_v1beta1")["items"][:1]})
_SPACES = frozenset({"shop", "pay", "it"})
_KINDS = Kinds(
    resources={
        ("networking.k8s.io", "Ingress"): Resource("networking.k8s.io", "v1", "ingresses"),
        ("", "Service"): Resource("", "v1", "services"),
    }
)


def _fetch(
    replies: dict[str, Reply], wanted: Set[MetricKey], kinds: Kinds = _KINDS
) -> tuple[Responses, Asked]:
    client = Asked(replies)
    fetcher = Fetcher(client, kinds, clock=lambda: 77)
    answers = fetcher.fetch(wanted)
    return answers, client


def test_usage_of_many_namespaces_is_one_request() -> None:
    answers, client = _fetch({f"{_USAGE}/pods": _LIST}, _SPACES)
    assert client.paths == [f"{_USAGE}/pods"]
    fetcher = Fetcher(client, _KINDS, cluster_wide=False)
    assert set(fetcher.fetch(_SPACES)) == _SPACES
    assert client.paths.count(f"{_USAGE}/pods") == 1
    found = response_to("pay", answers)
    assert found is not None
    assert (found.fetched_ms, found.error, len(found.samples)) == (77, "", 3)


def test_usage_that_is_refused_is_an_error_of_all_namespaces() -> None:
    error = Refused("the server has asked for the client to provide credentials", 401)
    answers, client = _fetch({f"{_USAGE}/pods": error}, _SPACES)
    assert answers[""].error == error.text
    assert len(client.paths) == 1


def test_pods_metrics_are_one_request_a_namespace() -> None:
    plain = PodMetricKey("shop", "rps", "")
    narrow = PodMetricKey("shop", "rps", "code in (200,204),verb=GET")
    replies: dict[str, Reply] = {
        f"{_CUSTOM}/pods/*/rps": wire_bytes("custom_v1beta1"),
        f"{_CUSTOM}/pods/*/rps?metricLabelSelector=code in (200,204),verb=GET": _ONE,
    }
    answers, client = _fetch(replies, {plain, narrow})
    assert sorted(client.paths) == sorted(replies)
    assert [len(answers[key].samples) for key in (plain, narrow)] == [2, 1]


def test_no_custom_metrics_at_all() -> None:
    pods = PodMetricKey("shop", "rps", "")
    of = ObjectMetricKey("shop", "", "Service", "main", "hits", "")
    wanted: set[MetricKey] = {pods, of}
    answers, client = _fetch({}, wanted, Kinds("", _KINDS.resources))
    text = "no custom metrics API (custom.metrics.k8s.io) registered"
    assert answers[pods].error == answers[of].error == text
    assert client.paths == []


def test_object_metrics() -> None:
    ingress = ObjectMetricKey("shop", "networking.k8s.io", "Ingress", "main", "hits", "code=200")
    service = ObjectMetricKey("shop", "", "Service", "main", "hits", "")
    space = ObjectMetricKey("shop", "", "Namespace", "other", "hits", "")
    unknown = ObjectMetricKey("shop", "x.io", "Sundial", "main", "hits", "")
    replies: dict[str, Reply] = {
        f"{_CUSTOM}/ingresses.networking.k8s.io/main/hits?metricLabelSelector=code=200": _ONE,
        f"{_CUSTOM}/services/main/hits": wire_bytes("custom_v1beta1"),
        f"{_CUSTOM}/metrics/hits": _ONE,
    }
    answers, client = _fetch(replies, {ingress, service, space, unknown})
    assert sorted(client.paths) == sorted(replies)
    assert answers[ingress].samples == answers[space].samples
    sample = answers[space].samples[0]
    assert isinstance(sample, SeriesSample)
    assert (sample.series, sample.value_milli) == ("", 1234)
    assert answers[service].error == (
        "the custom metrics API server returned 3 results when we asked for exactly one"
    )
    assert answers[unknown].error == (
        'unable to map kind Sundial.x.io to resource: no matches for kind "Sundial" in group "x.io"'
    )


def test_external_metrics() -> None:
    queue = ExternalMetricKey("shop", "queue", "queue=orders")
    broken = ExternalMetricKey("shop", "broken", "")
    replies: dict[str, Reply] = {
        f"{_EXTERNAL}/queue?labelSelector=queue=orders": wire_bytes("external"),
        f"{_EXTERNAL}/broken": b"{",
    }
    answers, _ = _fetch(replies, {queue, broken})
    assert len(answers[queue].samples) == 3
    assert answers[broken].error.startswith("the response cannot be decoded: ")


def test_what_is_late_is_an_error_of_that_answer_alone() -> None:
    release = threading.Event()

    def slow(timeout: float) -> bytes:
        assert timeout <= 2
        release.wait()
        return _LIST

    queue = ExternalMetricKey("shop", "queue", "")
    client = Asked({f"{_USAGE}/pods": slow, f"{_EXTERNAL}/queue": wire_bytes("external")})
    try:
        for _ in range(2):  # once more where the machine itself stood still
            fetcher = Fetcher(client, _KINDS, deadline_s=2)
            answers = fetcher.fetch({*_SPACES, queue})
            if not answers[queue].error:
                break
        assert answers[""].error == DEADLINE_ERROR == "context deadline exceeded"
        assert answers[queue].error == ""
    finally:
        release.set()


@pytest.mark.parametrize("error", [ApiError("odd"), KeyError("a slip"), RecursionError()])
def test_it_never_raises(error: Exception) -> None:
    answers, _ = _fetch({f"{_USAGE}/pods": error}, _SPACES)
    assert answers[""].error != ""
