"""Responses of the metrics APIs, decoded."""

from __future__ import annotations

import json
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hpabatch.cluster.apis.metrics import (
    read_external_values,
    read_object_value,
    read_pod_values,
    read_usage,
)
from hpabatch.cluster.objects.types import ContainerUsage, PodSample, SeriesSample, UsageSample
from hpabatch.model.objects.decode_fields import api_time_ms
from tests.cluster.wires import packed, wire, wire_bytes

_AT = api_time_ms("2026-10-07T12:00:04Z")


def test_usage() -> None:
    assert read_usage(wire_bytes("pod_metrics_list")) == (
        UsageSample(
            "shop", "web-1", _AT, 15_042,
            (
                ContainerUsage("app", 164, 134_524_928_000),
                ContainerUsage("mesh", 3, 9_437_184_000),
            ),
        ),
        UsageSample(
            "shop", "web-2", _AT + 1750, 60_000,
            (
                ContainerUsage("app", 0, 104_857_600_000),
                ContainerUsage("mesh", None, 1_000_000),
            ),
        ),
        UsageSample("pay", "web-3", _AT + 1000, None, ()),
    )  # fmt: skip


@pytest.mark.parametrize("body", [b"", b"[]", b'{"items":7}', b'{"items":[', b"\xff", b"[" * 9000])
def test_no_answers_at_all(body: bytes) -> None:
    for read in (
        lambda: read_usage(body),
        lambda: read_pod_values(body),
        lambda: read_object_value(body),
        lambda: read_external_values(body),
    ):
        with pytest.raises(ValueError, match=r"^the response cannot be decoded: "):
            read()


def test_pod_values_of_both_versions() -> None:
    assert read_pod_values(wire_bytes("custom_v1beta1")) == (
        PodSample("web-1", _AT, None, 2),  # the later one of two
        PodSample("web-2", _AT, None, 7000),
    )
    first = wire("custom_v1beta1")["items"][:1]
    assert read_pod_values(packed({"items": first}))[0].window_ms == 30_000
    assert read_pod_values(wire_bytes("custom_v1beta2")) == (PodSample("web-1", _AT, 45_000, 1234),)


def test_an_objects_metric_is_exactly_one() -> None:
    items = wire("custom_v1beta2")["items"]
    assert read_object_value(packed({"items": items})) == (SeriesSample("", _AT, 1234),)
    for count in (0, 3):
        text = f"the custom metrics API server returned {count} results when we asked for exactly"
        with pytest.raises(ValueError, match=text):
            read_object_value(packed({"items": items * count}))
    with pytest.raises(ValueError, match="quantities must match"):
        read_object_value(packed({"items": [items[0] | {"value": "much"}]}))


def test_external_series_are_named_by_their_labels() -> None:
    assert read_external_values(wire_bytes("external")) == (
        SeriesSample("area=eu,queue=orders", _AT, 12_000),
        SeriesSample("area=eu,queue=orders#2", _AT, 13_000),
        SeriesSample("", _AT + 1000, -500),
    )
    document = wire("external")
    document["items"][1]["value"] = None
    document["items"][2]["timestamp"] = None
    found = read_external_values(packed(document))
    assert [(item.ts_ms, item.value_milli) for item in found] == [
        (_AT, 12_000),
        (_AT, 0),
        (0, -500),
    ]


_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=3),
    lambda inner: (
        st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=3), inner, max_size=2)
    ),
    max_leaves=4,
)


@given(
    st.sampled_from(["metadata", "timestamp", "window", "containers", "windowSeconds", "value",
                     "describedObject", "metricLabels"]),
    _JSON,
)  # fmt: skip
def test_any_item_is_read_or_refused(field: str, value: Any) -> None:
    usage, values = wire("pod_metrics_list"), wire("custom_v1beta1")
    for document, read in ((usage, read_usage), (values, read_pod_values)):
        document["items"][1][field] = value
        with suppress(ValueError):
            assert read(json.dumps(document).encode())[0].pod == "web-1"
