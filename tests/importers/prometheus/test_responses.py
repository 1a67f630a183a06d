"""Responses as columns, held against the standard library's json, and lies of every kind."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hpabatch.importers.prometheus.client.errors import InvalidResponseError
from hpabatch.importers.prometheus.client.samples import (
    Expected,
    Findings,
    Samples,
    decode,
    decode_facts,
    decode_values,
)

FOREVER = Expected(0, 2**43)


def body(result: object, kind: Any = "matrix", **more: Any) -> bytes:
    data = {"resultType": kind, "result": result}
    return json.dumps({"status": "success", "data": data, **more}).encode()


def one(values: object, **metric: str) -> dict[str, object]:
    return {"metric": metric, "values": values}


def rows(samples: Samples) -> list[tuple[dict[str, str], int, float]]:
    """Return each sample with the labels that its series has."""
    labels = {
        row.pop("series"): {k: v for k, v in row.items() if v is not None}
        for row in samples.series.to_dicts()
    }
    return [
        (dict(sorted(labels[series].items())), ts, value)
        for series, ts, value in samples.points.iter_rows()
    ]


@given(st.binary(max_size=200))
def test_no_bytes_break_it(text: bytes) -> None:
    with pytest.raises(InvalidResponseError):
        decode(text, FOREVER)


@given(st.data())
def test_no_flipped_byte_breaks_it(data: st.DataObject) -> None:
    text = bytearray(body([one([[1.5, "2"], [2.5, "NaN"]], pod="a"), one([[1, "+Inf"]], pod="b")]))
    for _ in range(data.draw(st.integers(1, 3))):
        text[data.draw(st.integers(0, len(text) - 1))] = data.draw(st.integers(0, 255))
    try:
        found = decode(text, FOREVER)
    except InvalidResponseError:
        return
    readable = json.loads(text.decode("utf-8", "replace"))
    assert found.count == sum(len(one["values"]) for one in readable["data"]["result"])


def test_a_label_with_the_name_of_our_column() -> None:
    found = decode(body([one([[1, "1"]], series="a"), one([[1, "1"]], pod="a")]), FOREVER)
    assert found.series["exported_series"].to_list() == ["a", None]


def test_nothing_is_an_answer_too() -> None:
    for nothing in (body([], "vector"), body([], "matrix"), body([one([], pod="a")]), body(None)):
        assert decode(nothing, FOREVER).count == 0


def test_only_one_series_may_have_no_labels() -> None:
    assert decode(body([one([[1, "1"]])]), FOREVER).count == 1
    with pytest.raises(InvalidResponseError, match=r"series \{\} comes twice"):
        decode(body([one([[1, "1"]]), one([[1, "1"]])]), FOREVER)


@pytest.mark.parametrize(
    ("values", "told"),
    [
        ([[1, "1"], [1, "2"]], "does not come after"),
        ([[2, "1"], [1, "2"]], "does not come after"),
        ([1, "1"], "expected samples"),
        ([[1, "1", 2, "2"]], "expected samples"),
        ([[1, "1"], [2]], "expected samples"),
        ([["1", "1"]], "expected samples"),
        ([[1, 1]], "expected samples"),
        ([[1, None]], "expected samples"),
        ({}, "expected samples"),
        ([[1, ""]], "expected samples"),
        ([[1, "1.2.3"]], "expected samples"),
        ([[1, "0x10"]], "expected samples"),
        ([[-1, "1"]], "not asked for"),
        ([[1e300, "1"]], "not asked for"),
        ([[9e9, "1"]], "not asked for"),
    ],
)
def test_samples_that_are_none(values: object, told: str) -> None:
    with pytest.raises(InvalidResponseError, match=told):
        decode(body([one(values, pod="a"), one([[1, "1"]], pod="b")]), FOREVER)


def test_a_series_may_begin_before_the_one_before_ended() -> None:
    found = decode(body([one([[5, "1"], [6, "1"]], pod="a"), one([[1, "1"]], pod="b")]), FOREVER)
    assert found.count == 3
    series = [one([[1, "1"]], pod="a"), one([[3, "1"], [3, "1"]], pod="b")]
    with pytest.raises(
        InvalidResponseError, match=r"the sample at 3.000 of series \{pod='b'\} does not"
    ):
        decode(body(series), FOREVER)


@pytest.mark.parametrize("ts", [9.999, 20.001, 1e6])
def test_instants_outside(ts: float) -> None:
    asked = Expected(10_000, 20_000)
    assert decode(body([one([[10, "1"], [20, "1"]])]), asked).count == 2
    with pytest.raises(
        InvalidResponseError, match=r"was not asked for: the times are 10.000 to 20.000"
    ):
        decode(body([one([[ts, "1"]])]), asked)


def test_instants_between_steps() -> None:
    asked = Expected(60_000, 300_000, step_ms=60_000)
    assert decode(body([one([[60, "1"], [180, "1"]])]), asked).count == 2
    with pytest.raises(InvalidResponseError, match="in steps of 60 s"):
        decode(body([one([[60, "1"], [121, "1"]])]), asked)


@pytest.mark.parametrize(
    ("metric", "told"),
    [
        ({"namespace": "shop", "pod": "c"}, "pod is 'c'"),
        ({"namespace": "other", "pod": "a"}, "namespace is 'other'"),
        ({"namespace": "shop"}, "pod is ''"),
        ({}, "namespace is ''"),
        ({"namespace": "shop", "pod": "a"}, "container is ''"),
    ],
)
def test_series_that_were_not_asked_for(metric: dict[str, str], told: str) -> None:
    must = {"namespace": ["shop"], "pod": ("a", "b"), "container": ("app",)}
    good = {"namespace": "shop", "pod": "b", "container": "app"}
    assert decode(body([one([[1, "1"]], **good)]), Expected(0, 9_000, must)).count == 1
    with pytest.raises(InvalidResponseError, match=told):
        decode(body([one([[1, "1"]], **metric)]), Expected(0, 9_000, must))


def test_an_absent_label_is_an_empty_one() -> None:
    asked = Expected(0, 9_000, {"cluster": {"", "a"}})
    assert decode(body([one([[1, "1"]], pod="a")]), asked).count == 1


def test_the_same_series_twice() -> None:
    series = [one([[1, "1"]], pod="b", le="1"), one([[2, "1"]], le="1", pod="b")]
    with pytest.raises(InvalidResponseError, match=r"series \{le='1', pod='b'\} comes twice"):
        decode(body(series), FOREVER)


@pytest.mark.parametrize(
    ("text", "told"),
    [
        (b"", "expected the JSON"),
        (b"<html>", "expected the JSON"),
        (b"[]", "expected the JSON"),
        (b'{"status":"success"}', "no data"),
        (b'{"status":"error","error":"bad"}', "'error': bad"),
        (b'{"status":"success","data":[]}', "expected a query result"),
        (b'{"status":"success","data":{"result":[]}}', "no type"),
        (b'{"status":"success","data":{"resultType":"matrix"}}', "expected a query result"),
        (
            b'{"status":"success","data":{"resultType":"matrix\xff","result":[]}}',
            "expected a query result",
        ),
        (b'{"status":"success\xff","data":[]}', "expected the JSON"),
        (
            b'{"status":"success","data":{"resultType":"matrix","result":{}}}',
            "expected a query result",
        ),
        (
            b'{"status":"success","data":{"resultType":"matrix","result":[[]]}}',
            "expected a query result",
        ),
        (b'{"status":"success","data":{"resultType":"scalar","result":[1,"1"]}}', "'scalar'"),
        (b'{"status":"success","data":{"resultType":"string","result":[1,"a"]}}', "'string'"),
        (b'{"status":"success","data":{"resultType":"vector","result":[]}}', "expected matrix"),
        (body([{"metric": {}, "value": [1, "1"]}]), "no samples of the result's type"),
        (body([{"metric": {"pod": 1}, "values": []}]), "expected a query result"),
        (b"[" * 100_000, "expected the JSON"),
        (body([one([])])[:-3] + b"[" * 100_000, "expected the JSON"),
    ],
)
def test_answers_that_are_none(text: bytes, told: str) -> None:
    with pytest.raises(InvalidResponseError, match=told):
        decode(text, Expected(0, 2**43, kind="matrix"))


@pytest.mark.parametrize(
    "more",
    [
        {"warnings": ["No StoreAPIs matched for this query"]},
        {"warnings": ["PromQL warning: x", "results truncated due to limit"]},
        {"isPartial": True},
    ],
)
def test_a_partial_answer_is_no_answer(more: dict[str, Any]) -> None:
    with pytest.raises(InvalidResponseError, match=r"may be missing|is partial"):
        decode(body([], **more), FOREVER)
    with pytest.raises(InvalidResponseError, match=r"may be missing|is partial"):
        decode_values(json.dumps({"status": "success", "data": [], **more}).encode())


def test_remarks_on_a_query_are_counted() -> None:
    findings = Findings()
    infos = ['PromQL info: metric might not be a counter: "x" (1:6)', "something new"]
    remarks = {
        "infos": infos,
        "warnings": ["PromQL warning: quantile 2 (1:67)"],
        "isPartial": False,
    }
    decode(body([], **remarks), FOREVER, findings)
    decode(body([], **remarks), FOREVER, findings)
    assert findings.counts == {
        ("annotation", 'PromQL info: metric might not be a counter: "x"'): 2,
        ("annotation", "something new"): 2,
        ("annotation", "PromQL warning: quantile 2"): 2,
    }


def test_native_histograms_are_left_out_and_counted() -> None:
    findings = Findings()
    native = [1, {"count": "1", "sum": "1", "buckets": []}]
    series = [
        {"metric": {"__name__": "a"}, "histograms": [native]},
        {"metric": {"__name__": "b"}, "histograms": [native], "values": [[1, "1"]]},
        {"metric": {"__name__": "c"}, "values": [[1, "1"]]},
    ]
    found = decode(body(series), FOREVER, findings)
    assert [labels["__name__"] for labels, _, _ in rows(found)] == ["b", "c"]
    assert findings.counts == {("histogram", "a"): 1, ("histogram", "b"): 1}
    vector = [{"metric": {"__name__": "a"}, "histogram": native}]
    assert decode(body(vector, "vector"), FOREVER, findings).series.is_empty()


def test_findings_of_a_lie_do_not_count() -> None:
    findings = Findings()
    with pytest.raises(InvalidResponseError):
        decode(body([one([[1, ""]])], infos=["PromQL info: x"]), FOREVER, findings)
    assert not findings.counts


def test_values_of_a_label() -> None:
    found = decode_values(b'{"status":"success","data":["b","a","b"]}')
    assert found == ["a", "b"]
    for text in (b'{"status":"success","data":{}}', b'{"status":"success","data":[1]}', b"["):
        with pytest.raises(InvalidResponseError):
            decode_values(text)


def test_facts_of_a_server() -> None:
    text = b'{"status":"success","data":{"version":"2.42.0","features":{"a":"b"}}}'
    assert decode_facts(text) == {"version": "2.42.0"}
    with pytest.raises(InvalidResponseError):
        decode_facts(b'{"status":"success","data":[]}')
