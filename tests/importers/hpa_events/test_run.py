"""Audit logs and recorded watches: what happened to HPAs, when, in whatever order it is told."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from polars.testing import assert_frame_equal

from hpabatch.errors import UnreadableError
from hpabatch.importers.hpa_events import seen as hpa_events_seen
from hpabatch.importers.hpa_events.run import read_hpa_events
from tests.effort import effort
from tests.importers.hpa_events_made import (
    CPU,
    MEMORY,
    START_MS,
    Json,
    audit,
    day,
    hpa,
    lines,
    read,
    scale,
    second,
    spans,
    status,
    status_write,
    statuses,
    watched,
)

DAY = [
    ("u1", 100, 40_500, 10),
    ("u1", 40_500, 50_000, 12),
    ("u1", 50_000, 60_000, 20),
    ("u2", 70_700, None, 10),
]
REPORTED = [(15_020, 2, 4), (30_020, 4, 4), (45_020, 4, 5)]


def received(ms: int) -> Json:
    return {"received": (START_MS + ms) / 1000}


# -- audit logs


def test_a_log_gives_specs_and_statuses(tmp_path: Path) -> None:
    events = read(tmp_path, lines(day()))
    assert spans(events) == DAY
    assert statuses(events) == REPORTED
    assert events.seen_first == frozenset()
    assert events.warnings == ()
    assert events.last_ms == START_MS + 70_700
    assert events.hpas["created"].to_list() == [START_MS] * 4


@settings(max_examples=effort(25), deadline=None)
@given(st.permutations(day()), st.integers(0, 9), st.integers(0, 9))
def test_any_order_and_overlap_gives_the_same(
    tmp_path_factory: pytest.TempPathFactory, order: list[Json], first: int, second: int
) -> None:
    folder = tmp_path_factory.mktemp("logs")
    expected = read(folder, lines(day()))
    found = read(folder, lines(order[first:]), lines(order[: max(first, second)]))
    assert_frame_equal(found.hpas, expected.hpas)
    assert_frame_equal(found.statuses.rows(), expected.statuses.rows())


@pytest.mark.parametrize(
    "changes",
    [
        {"responseStatus": {"code": 409}},
        {"responseStatus": {"code": 422}, "responseObject": {"kind": "Status"}},
        {"stage": "RequestReceived"},
        {"stage": "Panic"},
        {"requestURI": "/apis/autoscaling/v2/…/web?dryRun=All&fieldManager=x"},
    ],
)
def test_what_left_nothing_is_ignored(tmp_path: Path, changes: Json) -> None:
    events = [audit(100, "create", hpa(1))]
    events.append(audit(200, "patch", hpa(2, spec={"maxReplicas": 99}), **changes))
    events.append(scale(300, "update", 7, 2, **changes) | changes)
    found = read(tmp_path, lines(events))
    assert spans(found) == [("u1", 100, None, 10)]
    assert found.last_ms == START_MS + 100


def test_the_servers_order_counts_for_requests_that_waited(tmp_path: Path) -> None:
    """The request that came in first was served last."""
    events = [
        audit(0, "create", hpa(1)),
        audit(1_000, "patch", hpa(3, spec={"maxReplicas": 30})),
        audit(1_100, "patch", hpa(2, spec={"maxReplicas": 20})),
    ]
    assert spans(read(tmp_path, lines(events)))[-1] == ("u1", 1_100, None, 30)


def test_versions_of_the_api_are_one_spec(tmp_path: Path) -> None:
    """A controller of old reads and writes v1: other metrics' order, annotations for the rest."""
    both = {"metrics": [CPU, MEMORY]}
    old = hpa(2)
    del old["spec"]["metrics"]
    old["apiVersion"] = "autoscaling/v1"
    old["spec"]["targetCPUUtilizationPercentage"] = 50
    memory = {"name": "memory", "targetAverageValue": "500Mi"}
    condition = {"type": "AbleToScale", "status": "True", "reason": "R", "message": "m"}
    usage = {"name": "memory", "currentAverageValue": "1Mi"}
    old["metadata"]["annotations"] = {
        "autoscaling.alpha.kubernetes.io/metrics": json.dumps(
            [{"type": "Resource", "resource": memory}]
        ),
        "autoscaling.alpha.kubernetes.io/conditions": json.dumps([condition]),
        "autoscaling.alpha.kubernetes.io/current-metrics": json.dumps(
            [{"type": "Resource", "resource": usage}]
        ),
    }
    old["status"] = {"currentReplicas": 2, "desiredReplicas": 4}
    events = [audit(0, "create", hpa(1, spec=both)), status_write(15_000, old)]
    found = read(tmp_path, lines(events))
    assert spans(found) == [("u1", 0, None, 10)]
    assert [m["resource"]["name"] for m in json.loads(found.hpas["spec"][0])["metrics"]] == [
        "cpu", "memory",
    ]  # fmt: skip
    row = found.statuses.rows().row(0, named=True)
    assert json.loads(row["current_metrics"])[0]["resource"]["current"] == {"averageValue": "1Mi"}
    assert json.loads(row["conditions"])[0]["type"] == "AbleToScale"
    # Where the old form came first, the later one stands in its place.
    late = [events[1], audit(20_000, "get", hpa(2, spec=both))]
    assert read(tmp_path, lines(late)).hpas["spec"].to_list() == found.hpas["spec"].to_list()


def test_labels_and_annotations_are_edits_too(tmp_path: Path) -> None:
    events = [
        audit(0, "create", hpa(1)),
        audit(500, "patch", hpa(2, metadata={"labels": {"team": "a"}, "generation": 3})),
        audit(900, "patch", hpa(3, metadata={"annotations": {"note": "é"}})),
    ]
    rows = read(tmp_path, lines(events)).hpas
    assert rows["labels"].to_list() == ["{}", '{"team":"a"}', "{}"]
    assert rows["annotations"].to_list() == ["{}", "{}", '{"note":"é"}']
    assert rows["generation"].to_list() == [None, 3, None]


def test_writes_without_the_object_are_counted(tmp_path: Path) -> None:
    events = [
        audit(0, "create", hpa(1)),
        audit(30_000, "patch", requestObject={"spec": {"maxReplicas": 13}}),
        audit(40_000, "delete"),
    ]
    found = read(tmp_path, lines(events))
    assert spans(found) == [("u1", 0, 40_000, 10)]
    told = "1 writes of HPAs without the object: log the level RequestResponse"
    assert found.warnings == (told,)


def test_a_name_that_the_server_made(tmp_path: Path) -> None:
    made = audit(0, "create", hpa(1, metadata={"name": "web-x7f"}), about={"name": None})
    found = read(tmp_path, lines([made, audit(5, "create", about={"name": None})]))
    assert found.hpas["name"].to_list() == ["web-x7f"]


@pytest.mark.parametrize("told", ["items", "all", "selected"])
def test_all_of_a_namespace_are_deleted(tmp_path: Path, told: str) -> None:
    other = {"name": "api", "uid": "u9"}
    events = [audit(0, "create", hpa(1)), audit(1, "create", hpa(2, metadata=other))]
    response = {"kind": "HorizontalPodAutoscalerList", "apiVersion": "autoscaling/v2"}
    gone = hpa(5)
    del gone["kind"], gone["apiVersion"]
    uri = "/apis/autoscaling/v2/namespaces/shop/horizontalpodautoscalers"
    events.append(
        audit(50, "deletecollection", {**response, "items": [gone]} if told == "items" else None,
              about={"name": None, "namespace": "shop"},
              requestURI=uri + "?labelSelector=a%3Db" * (told == "selected"))
    )  # fmt: skip
    found = dict(read(tmp_path, lines(events)).hpas.select("name", "valid_to").rows())
    end = START_MS + 50
    assert found == {
        "web": None if told == "selected" else end, "api": end if told == "all" else None
    }  # fmt: skip


def test_a_finalizer_holds_an_object_that_was_deleted(tmp_path: Path) -> None:
    events = [
        audit(0, "create", hpa(1)),
        audit(10_000, "delete", hpa(2)),
        status_write(15_000, hpa(3, status=status(2, 3))),
        audit(16_000, "get", hpa(3)),
    ]
    assert spans(read(tmp_path, lines(events))) == [("u1", 0, None, 10)]
    # One that is read only may come out of a cache.
    stale = [*events[:2], audit(10_100, "get", hpa(1))]
    assert spans(read(tmp_path, lines(stale))) == [("u1", 0, 10_000, 10)]


@pytest.mark.parametrize("source", ["log", "watch"])
def test_what_was_there_before_the_first_sighting(tmp_path: Path, source: str) -> None:
    """A status tells the spec of an HPA that was made before; who wrote it, since when."""

    def shown(item: Json) -> Json:
        return (
            status_write(15_000, item)
            if source == "log"
            else watched("ADDED", item, **received(15_000))
        )

    written = [{"manager": "apply", "time": second(START_MS - 60_000), "fieldsV1": {"f:spec": {}}}]
    created = {"creationTimestamp": second(START_MS - 3_600_000)}
    first = hpa(7, metadata=created, status=status(2, 2))
    found = read(tmp_path, lines([shown(first)]))
    assert spans(found) == [("u1", 15_000, None, 10)]
    assert found.seen_first == {("shop", "web")}
    first = hpa(7, metadata={**created, "managedFields": written}, status=status(2, 2))
    found = read(tmp_path, lines([shown(first)]))
    assert spans(found) == [("u1", -60_000, None, 10)]
    assert found.seen_first == {("shop", "web")}
    since = [dict(written[0], time=created["creationTimestamp"])]
    first = hpa(7, metadata={**created, "managedFields": since}, status=status(2, 2))
    found = read(tmp_path, lines([shown(first)]))
    assert spans(found) == [("u1", -3_600_000, None, 10)]
    assert found.seen_first == frozenset()
    edited = read(tmp_path, lines([audit(5, "patch", first)]))
    assert edited.seen_first == {("shop", "web")}


def test_a_successor_begins_where_it_was_created(tmp_path: Path) -> None:
    """Nobody logged the end of the one before."""
    later = {"uid": "u2", "creationTimestamp": second(START_MS + 30_000)}
    events = [
        audit(0, "create", hpa(1)),
        status_write(45_000, hpa(9, metadata=later, status=status(2, 2))),
    ]
    assert spans(read(tmp_path, lines(events))) == [
        ("u1", 0, 30_000, 10), ("u2", 45_000, None, 10),
    ]  # fmt: skip


def test_lists_of_audit_events(tmp_path: Path) -> None:
    batch = {"kind": "EventList", "apiVersion": "audit.k8s.io/v1", "items": [*day(), "odd"]}
    assert spans(read(tmp_path, lines([batch]))) == DAY


# -- watches


def test_a_watch_with_its_instants_is_as_good_as_a_log(tmp_path: Path) -> None:
    scaled = START_MS + 15_000
    events = [
        watched("ADDED", hpa(1), **received(100)),
        watched("MODIFIED", hpa(2, status=status(2, 4, scaled)), **received(15_020)),
        watched("MODIFIED", hpa(3, status=status(4, 4, scaled)), **received(30_020)),
        watched("MODIFIED", hpa(4, spec={"maxReplicas": 12}, status=status(4, 4, scaled)),
                **received(40_500)),
        watched("BOOKMARK", {"kind": "HorizontalPodAutoscaler"}),
        watched("ERROR", {"kind": "Status", "code": 410}),
        watched("DELETED", hpa(8, spec={"maxReplicas": 12}), received="2026-10-08T00:01:00Z"),
        watched("ADDED", hpa(9, metadata={"uid": "u2", "creationTimestamp": second(
            START_MS + 70_700)}), **received(70_900)),
    ]  # fmt: skip
    expected = [("u1", 0, 40_500, 10), ("u1", 40_500, 60_000, 12), ("u2", 70_000, None, 10)]
    found = read(tmp_path, lines(events))
    assert spans(found) == expected
    assert statuses(found) == REPORTED[:2]
    assert found.warnings == ()


def test_unknown_fields_are_no_trouble_and_wrong_ones_are_told(tmp_path: Path) -> None:
    odd = hpa(2, spec={"maxReplicas": 11, "fromTheFuture": {"a": 1}})
    wrong = hpa(3, spec={"maxReplicas": "many"})
    future = hpa(4) | {"apiVersion": "autoscaling/v3"}
    found = read(tmp_path, lines([
        audit(0, "create", hpa(1)), audit(1000, "patch", odd | {"extra": 1}),
        *(audit(2000 + k, "patch", wrong) for k in range(7)), audit(3000, "patch", future),
    ]))  # fmt: skip
    assert spans(found)[-1] == ("u1", 1000, None, 11)
    assert len(found.warnings) == 6
    assert "spec.maxReplicas" in found.warnings[0]
    assert ":3: " in found.warnings[0]
    assert found.warnings[-1] == "3 more HPAs that cannot be read"


# -- files


def test_compressed_files_and_folders(tmp_path: Path) -> None:
    expected = read(tmp_path, lines(day()))
    folder = tmp_path / "logs"
    folder.mkdir()
    (folder / "audit-1.log.gz").write_bytes(gzip.compress(lines(day()[:5]).encode()))
    (folder / "audit.log").write_text("\ufeff" + lines(day()[5:]) + "\n\n")
    (folder / ".hidden").write_text("nonsense")
    (folder / "inner").mkdir()
    assert_frame_equal(read_hpa_events([folder]).hpas, expected.hpas)


def test_a_last_document_that_is_cut_short_is_told(tmp_path: Path) -> None:
    whole = lines(day())
    kept = len(lines(day()[:-1]))
    for cut in (kept + 2, len(whole) - 30, len(whole) - 3):
        found = read(tmp_path, whole[:cut])
        assert spans(found) == DAY[:-1]
        assert "cut short, ignored" in found.warnings[0]


def test_a_document_that_is_cut_short_in_between_costs_itself(tmp_path: Path) -> None:
    broken = lines([audit(1, "create", hpa(1, metadata={"name": "lost"}))])
    text = lines(day()[:2]) + broken[: len(broken) // 2] + "\n" + lines(day()[2:])
    found = read(tmp_path, text)
    assert spans(found) == DAY
    assert len(found.warnings) == 1


def test_a_compressed_file_that_is_cut_short(tmp_path: Path) -> None:
    data = gzip.compress(lines(day()).encode())
    found = read(tmp_path, data[:-9])
    assert any("the gzip file is cut short" in text for text in found.warnings)
    with pytest.raises(UnreadableError, match="cannot be read"):
        read(tmp_path, b"\x1f\x8b" + b"x" * 50)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("kind: List\nitems: []\n", "0.log:1: expected a JSON object on a line, got 'kind: List'"),
        ("[1]\n", "expected a JSON object on a line, got '[1]'"),
        ('{"a": }\n', "expected a JSON object on a line, got"),
        (
            "\n\n" + '{"kind": "Pod", "apiVersion": "v1"}\n',
            "0.log:3: expected an event of an audit",
        ),
        (lines([{"kind": "List", "items": [hpa(1)]}]), "or of a watch, got a List; see"),
        (
            json.dumps(audit(0, "create", hpa(1)), indent=2),
            "0.log:2: expected a JSON object on a line",
        ),
        ('{"level": "info"}\n', "got a JSON object; see"),
        (lines([watched("ADDED", hpa(1))]), "expected the time of a watch event in received"),
        ("\x00\x01\x02", "expected a JSON object on a line"),
    ],
)
def test_what_is_neither_is_refused_with_its_place(tmp_path: Path, text: str, words: str) -> None:
    with pytest.raises(UnreadableError) as refused:
        read(tmp_path, text)
    assert words in str(refused.value)
    assert "see docs/prometheus.md for how to record" in str(refused.value)


def test_strange_lines_after_a_good_beginning_are_told(tmp_path: Path) -> None:
    text = lines(day()[:1]) + "error: connection lost\n" + '{"kind": "Pod"}\n' + lines(day()[1:])
    found = read(tmp_path, text)
    # A log's lines that cannot be about an HPA are not looked at.
    assert found.warnings == (f"{tmp_path / '0.log'}:2: not JSON, ignored",)
    assert spans(found) == DAY
    watch = lines([watched("ADDED", hpa(1), **received(1)), watched("MODIFIED", hpa(2))])
    warnings = read(tmp_path, watch + '{"kind": "Pod"}\n{"kind":\n"x", ]}\n').warnings
    assert ":2: expected the time of a watch event in received, got none" in warnings[0]
    assert (
        ":3: expected an event of an audit log (audit.k8s.io) or of a watch, got a Pod"
        in warnings[1]
    )
    assert ":4: cut short" in warnings[2]
    assert ":5: not JSON" in warnings[3]


def test_files_without_hpas_are_told(tmp_path: Path) -> None:
    pods = audit(0, "create", about={"resource": "pods"})
    found = read(tmp_path, lines([pods] * 3), "", lines([watched("BOOKMARK", {})]))
    assert "0.log: nothing about an HPA; does the audit policy log" in found.warnings[0]
    assert [text.endswith("nothing about an HPA") for text in found.warnings[1:]] == [True, True]
    assert (found.last_ms, found.hpas.height) == (None, 0)


def test_files_that_are_not_there(tmp_path: Path) -> None:
    with pytest.raises(UnreadableError, match="No such file"):
        read_hpa_events([tmp_path / "no.log"])
    with pytest.raises(UnreadableError, match="holds no file"):
        read_hpa_events([tmp_path])


def test_a_document_that_is_too_large_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(hpa_events_seen, "MAX_BYTES", 2000)
    big = hpa(1, metadata={"annotations": {"a": "x" * 3000}})
    with pytest.raises(UnreadableError, match=":2: a document of more than"):
        read(tmp_path, lines([audit(0, "create", hpa(1)), audit(1, "update", big)]))


# -- many statuses
