"""Specs of HPAs from what is exported, from documents, from events; windows cut anywhere."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hpabatch.history.columns import TIME
from hpabatch.history.provenance import BEHAVIOR, METRICS
from hpabatch.importers.prometheus.client.samples import Span
from hpabatch.importers.prometheus.specs.specs import SpecWindow, merge_specs, spec_rows
from hpabatch.model.objects.hpa import HPA
from tests.effort import effort
from tests.importers.hpa_events_made import audit, lines, micro, read
from tests.importers.prometheus.ksm_hpas import (
    CPU,
    HITS,
    MEMORY,
    QUEUE,
    RPS,
    START,
    Moment,
    beats,
    gauges,
    hpa,
    of_container,
    scrapes,
    series_of,
    spec,
)
from tests.importers.prometheus.ksm_hpas import span as window_of

PLACE = ("shop", "web")
WHOLE = window_of(0, 3600)
TIMES = scrapes(-600, 3600)
Row = tuple[int, int | None, dict[str, Any]]


def found_specs(
    history: Mapping[str, Sequence[Moment]] | Sequence[Moment],
    window: Span = WHOLE,
    *,
    times: Sequence[int] = TIMES,
    version: str = "new",
    scrape: Mapping[str, str] | None = None,
    **beside: Any,
) -> SpecWindow:
    named = history if isinstance(history, Mapping) else {"web": history}
    series = series_of(named, times, version, scrape)
    return spec_rows(gauges(series, window), window, beats(times, window), cluster="east", **beside)


def rows(found: SpecWindow | pl.DataFrame) -> list[Row]:
    """Return validity (s after START) and spec of every row, without what it scales."""
    frame = found.rows if isinstance(found, SpecWindow) else found
    told = []
    for since, until, text in frame.select("valid_from", "valid_to", "spec").rows():
        fields = json.loads(text)
        if fields["scaleTargetRef"]["name"] == "web":
            del fields["scaleTargetRef"]
        told.append((since // 1000 - START, until and until // 1000 - START, fields))
    return told


def plain(*metrics: Any, **more: Any) -> dict[str, Any]:
    found = spec(*metrics, **more)
    del found["scaleTargetRef"]
    return found


def methods(found: SpecWindow, subject: str) -> list[str]:
    return [one.method for one in found.sources if one.subject == subject]


# -- from the gauges alone


def test_resources_are_told_from_the_gauges() -> None:
    found = found_specs([(-900, hpa(spec(MEMORY, CPU)))])
    average = json.loads(json.dumps(MEMORY).replace("500Mi", "524288k"))
    assert rows(found) == [(0, None, plain(CPU, average))]
    row = found.rows.row(0, named=True)
    assert json.loads(row["spec"])["scaleTargetRef"]["apiVersion"] == "apps/v1"
    assert row["uid"] == "hpa-east-shop-Deployment-web"
    assert (row["labels"], row["annotations"], row["created"]) == (None, None, None)
    assert found.without_behavior == {PLACE}
    assert (methods(found, BEHAVIOR), methods(found, METRICS)) == (["absent"], ["exported"])
    assert [one.spec for one in found.hpas] == [hpa(spec(CPU, average)).spec]
    assert found.kinds() == {
        ("shop", "web", "cpu"): "Resource", ("shop", "web", "memory"): "Resource",
    }  # fmt: skip


def test_another_type_of_target_takes_the_place_of_the_one_before() -> None:
    average = {"type": "Resource", "resource": {"name": "cpu", "target": {
        "type": "AverageValue", "averageValue": "250m"}}}  # fmt: skip
    history = [(-900, hpa()), (601, hpa(spec(average))), (1201, hpa())]
    found = found_specs(history)
    assert rows(found) == [
        (0, 630, plain()), (630, 1230, plain(average)), (1230, None, plain()),
    ]  # fmt: skip


@pytest.mark.parametrize("scraped", [None, "kube-state-metrics", "ksm"])
def test_containers_are_told_where_they_are_exported(scraped: str | None) -> None:
    """The scrape's own label of that name is not the metric's."""
    metrics = (of_container(), of_container(container="proxy", share=30), MEMORY)
    labels = {} if scraped is None else {"container": scraped}
    found = found_specs([(-900, hpa(spec(*metrics)))], scrape=labels)
    average = json.loads(json.dumps(MEMORY).replace("500Mi", "524288k"))
    assert rows(found) == [(0, None, plain(*metrics[:2], average))]
    # Where it is not, all is taken for a resource of the pod.
    merged = found_specs([(-900, hpa(spec(metrics[0])))], version="middle", scrape=labels)
    assert rows(merged)[0][2]["metrics"][0]["type"] == "Resource"


def test_the_exporters_name_is_known_where_info_is_read_without_it() -> None:
    window, series = WHOLE, series_of(
        {"web": [(-900, hpa())]}, TIMES, scrape={"container": "kube-state-metrics"}
    )  # fmt: skip
    told = gauges(series, window)
    bare = told["hpa_info"].changes.drop("container"), told["hpa_info"].seen.drop("container")
    told["hpa_info"] = type(told["hpa_info"])(*bare)
    found = spec_rows(told, window, TIMES, cluster="east")
    assert rows(found) == [(0, None, plain())]


def test_other_metrics_leave_the_hpa_out() -> None:
    history = {
        "cpu": [(-900, hpa(name="cpu"))],
        "jobs": [(-900, hpa(spec(CPU, QUEUE, RPS), "jobs"))],
        "late": [(-900, hpa(name="late")), (601, hpa(spec(RPS), "late"))],
    }
    found = found_specs(history)
    assert found.rows["name"].to_list() == ["cpu", "late"]
    assert found.left_out == {
        ("shop", "jobs"): "the types of its metrics queue, rps are not exported",
        ("shop", "late"): "the type of its metric rps is not exported",
    }
    assert rows(found)[1][:2] == (0, 630)
    assert [(s.name, s.method) for s in found.sources if s.subject == METRICS] == [
        ("cpu", "exported"), ("jobs", "absent"), ("late", "exported"),
    ]  # fmt: skip
    assert found.shown == {("shop", name) for name in history}
    assert found.ends == {("shop", "jobs"): WHOLE.after_ms}


@pytest.mark.parametrize(
    ("missing", "reason"),
    [
        ("hpa_target", "its metrics are not exported"),
        ("hpa_max", "its maxReplicas is not exported"),
        ("hpa_info", "what it scales is not exported"),
    ],
)
def test_a_site_that_lacks_a_series(missing: str, reason: str) -> None:
    series = series_of({"web": [(-900, hpa())]}, TIMES)
    told = {name: one for name, one in gauges(series, WHOLE).items() if name != missing}
    found = spec_rows(told, WHOLE, TIMES, cluster="east")
    assert found.left_out == {PLACE: reason}
    document = spec_rows(told, WHOLE, TIMES, cluster="east", manifests=[hpa(spec(high=77))])
    assert rows(document)[0][2]["maxReplicas"] == (77 if missing == "hpa_max" else 10)
    assert not document.left_out


def test_without_minimum_it_is_one() -> None:
    series = series_of({"web": [(-900, hpa())]}, TIMES)
    del series["hpa_min"]
    found = spec_rows(gauges(series, WHOLE), WHOLE, TIMES, cluster="east")
    assert rows(found) == [(0, None, plain(low=1))]
    assert spec_rows({}, WHOLE, TIMES, cluster="east").shown == frozenset()


# -- lives


def test_one_that_is_made_anew_has_another_life() -> None:
    for size in (10, 11):
        found = found_specs([(-900, hpa()), (601, None), (1801, hpa(spec(high=size)))])
        assert [row[:2] for row in rows(found)] == [(0, 630), (1830, None)]
        assert found.rows["uid"].n_unique() == 2


def test_an_exporter_that_was_away_ends_nothing() -> None:
    times = scrapes(-600, 600) + scrapes(1800, 3600)
    found = found_specs([(-900, hpa())], times=times)
    assert rows(found) == [(0, None, plain())]
    assert not found.begun
    # Not even at the beginning or the end of a window.
    for inside in (window_of(700, 2400), window_of(0, 1700)):
        part = found_specs([(-900, hpa())], inside, times=times)
        assert [row[1] for row in rows(part)] == [None]
        assert not part.ends
        assert not part.begun
    nothing = found_specs([(-900, hpa())], window_of(1000, 1700), times=times)
    assert (nothing.shown, nothing.read_ms) == (set(), None)


# -- documents beside


BEHAVIOR_BLOCK = {"scaleDown": {"stabilizationWindowSeconds": 60}}


def test_numbers_follow_what_was_exported() -> None:
    def then(high: int, rps: str, share: int) -> HPA:
        cpu, pods = json.dumps(CPU).replace("50", str(share)), json.dumps(RPS).replace("100", rps)
        return hpa(spec(json.loads(cpu), json.loads(pods), high=high))

    history = [(-900, then(5, "100", 50)), (601, then(6, "33500m", 50)), (1201, then(6, "0.5", 80))]
    document = hpa(spec(CPU, RPS, high=99, behavior=BEHAVIOR_BLOCK))
    found = found_specs(history, manifests=[document])
    told = [
        (row[0], row[2]["maxReplicas"], row[2]["metrics"][1]["pods"]["target"]["averageValue"],
         row[2]["metrics"][0]["resource"]["target"]["averageUtilization"], row[2]["behavior"])
        for row in rows(found)
    ]  # fmt: skip
    assert told == [
        (0, 5, "100", 50, BEHAVIOR_BLOCK),
        (630, 6, "33500m", 50, BEHAVIOR_BLOCK),
        (1230, 6, "500m", 80, BEHAVIOR_BLOCK),
    ]
    assert [one.detail for one in found.sources if one.subject == METRICS] == [
        "bounds and targets as exported"
    ]


@pytest.mark.parametrize("version", ["old", "middle", "new"])
def test_what_a_version_does_not_export_stays_as_the_document_says(version: str) -> None:
    full = spec(CPU, HITS, of_container())
    found = found_specs([(-900, hpa(full))], version=version, manifests=[hpa(full)])
    assert rows(found)[0][2]["metrics"] == full["metrics"]
    assert not found.left_out


def test_metrics_of_one_name_stay_as_the_document_says() -> None:
    """The server keeps one of equal series: whose it is is not known."""
    two = spec(of_container(), CPU)
    found = found_specs([(-900, hpa(two))], version="middle", manifests=[hpa(two)])
    assert rows(found)[0][2]["metrics"] == two["metrics"]


def test_a_document_of_another_time_is_told() -> None:
    """What it has more is left out, what it lacks is a resource or not known."""
    document = hpa(spec(CPU, RPS, behavior=BEHAVIOR_BLOCK))
    found = found_specs([(-900, hpa(spec(CPU, MEMORY)))], manifests=[document])
    names = [m["resource"]["name"] for m in rows(found)[0][2]["metrics"]]
    assert names == ["cpu", "memory"]
    assert rows(found)[0][2]["behavior"] == BEHAVIOR_BLOCK
    assert "the document of HPA shop/web (manifest) has another target" in found.warnings[0]
    other = found_specs([(-900, hpa(spec(QUEUE)))], manifests=[document])
    assert other.left_out == {PLACE: "the type of its metric queue is not exported"}
    assert len(other.warnings) == 1
    # One that fits at times is that of another time, which is no mistake.
    later = found_specs([(-900, hpa(spec(CPU))), (601, hpa(spec(CPU, RPS)))], manifests=[document])
    assert not later.warnings
    assert later.sources[1].detail == (
        "bounds, targets, and at times other metrics or another target, as exported"
    )


def test_a_document_of_another_scale_target() -> None:
    other = spec()
    other["scaleTargetRef"] = {"kind": "StatefulSet", "name": "db", "apiVersion": "apps/v1"}
    found = found_specs([(-900, hpa())], manifests=[hpa(other)])
    assert rows(found) == [(0, None, plain())]
    assert len(found.warnings) == 1


def test_documents_of_keda_and_of_nobody() -> None:
    given = [hpa(), hpa(name="other")]
    found = found_specs([(-900, hpa())], manifests=given, methods={PLACE: "keda"})
    assert methods(found, METRICS) == ["keda"]


# -- events


def item(version: int, fields: dict[str, Any]) -> dict[str, Any]:
    return {
        "apiVersion": "autoscaling/v2", "kind": "HorizontalPodAutoscaler", "spec": fields,
        "metadata": {"name": "web", "namespace": "shop", "uid": "u1",
                     "resourceVersion": str(version)},
    }  # fmt: skip


def at(second: int, verb: str, fields: dict[str, Any] | None = None, **more: Any) -> dict[str, Any]:
    """Return an audit event, s after START."""
    response = None if fields is None else item(second + 10_000, fields)
    event = audit(0, verb, response, **more)
    return event | {"requestReceivedTimestamp": micro(1000 * (START + second))}


def test_events_give_specs_and_instants(tmp_path: Path) -> None:
    first, then = spec(QUEUE), spec(QUEUE, high=12, behavior=BEHAVIOR_BLOCK)
    events = read(tmp_path, lines([at(-3000, "create", first), at(611, "patch", then),
                                   at(3590, "get", then)]))  # fmt: skip
    found = found_specs([(-3000, hpa(first)), (611, hpa(then))], events=events)
    assert [row[:2] for row in rows(found)] == [(-3000, 611), (611, None)]
    assert rows(found)[1][2]["behavior"] == BEHAVIOR_BLOCK
    assert found.rows["uid"].to_list() == ["u1", "u1"]
    assert methods(found, BEHAVIOR) == ["events"]
    # Before and after, it is a document: numbers as exported.
    late = hpa(spec(QUEUE, high=13))
    history = [(-3000, hpa(first)), (611, hpa(then)), (3700, late)]
    window = window_of(3600, 7200)
    more = found_specs(history, window, times=scrapes(0, 7200), events=events)
    assert [(row[0], row[2]["maxReplicas"]) for row in rows(more)] == [(3600, 12), (3720, 13)]
    assert rows(more)[1][2]["behavior"] == BEHAVIOR_BLOCK
    assert [one.detail for one in more.sources if one.subject == BEHAVIOR] == [
        "recorded at another time"
    ]


def test_events_that_begin_late_are_a_document_before(tmp_path: Path) -> None:
    fields = spec(QUEUE, behavior=BEHAVIOR_BLOCK)
    events = read(tmp_path, lines([at(1800, "update", fields)]))
    history = [(-900, hpa(spec(QUEUE, high=5))), (1800, hpa(fields))]
    found = found_specs(history, events=events)
    assert [(row[0], row[2]["maxReplicas"]) for row in rows(found)] == [(0, 5), (1800, 10)]
    assert rows(found)[0][2]["behavior"] == BEHAVIOR_BLOCK
    # Made there, it was another one before, if any.
    made = read(tmp_path, lines([at(1800, "create", fields)]))
    before = found_specs([(-900, hpa(spec(high=5))), (1800, hpa(fields))], events=made)
    assert [row[0] for row in rows(before)] == [0, 1800]
    assert "behavior" not in rows(before)[0][2]
    assert before.without_behavior == {PLACE}


def test_events_end_lives(tmp_path: Path) -> None:
    fields = spec(QUEUE)
    done = at(1205, "delete", responseObject={"kind": "Status", "details": {"uid": "u1"}})
    events = read(tmp_path, lines([at(-3000, "create", fields), done]))
    found = found_specs([(-3000, hpa(fields)), (1205, None)], events=events)
    assert [row[:2] for row in rows(found)] == [(-3000, 1205)]
    # An HPA that nobody exports is what its events say.
    alone = found_specs({}, events=events)
    assert [row[:2] for row in rows(alone)] == [(-3000, 1205)]
    open_ended = read(tmp_path, lines([at(-3000, "create", fields)]))
    assert [row[:2] for row in rows(found_specs({}, events=open_ended))] == [(0, None)]
    assert found_specs({}, events=open_ended, namespaces=["other"]).rows.is_empty()
    later = found_specs({}, window_of(7200, 10_800), times=scrapes(6900, 10_800), events=events)
    assert later.rows.is_empty()


def test_one_made_after_the_events_is_another(tmp_path: Path) -> None:
    fields = spec(QUEUE, behavior=BEHAVIOR_BLOCK)
    events = read(tmp_path, lines([at(-3000, "create", fields), at(100, "get", fields)]))
    found = found_specs([(-3000, hpa(fields)), (601, None), (1801, hpa(fields))], events=events)
    assert [row[:2] for row in rows(found)] == [(-3000, 630), (1830, None)]
    assert found.rows["uid"].to_list()[1].startswith("hpa-east-")


# -- in a store, day after day


def stored_rows(frame: pl.DataFrame) -> pl.DataFrame:
    times = ["valid_from", "valid_to", "created"]
    return frame.with_columns(pl.col(times).cast(TIME), cluster=pl.lit("east"))


def imported(
    history: Mapping[str, Sequence[Moment]],
    cuts: Sequence[int],
    times: Sequence[int],
    **beside: Any,
) -> pl.DataFrame:
    """Return the store's rows after windows that end at these seconds."""
    kept = pl.DataFrame()
    for begin, end in pairwise(cuts):
        found = found_specs(history, window_of(begin, end), times=times, **beside)
        added = stored_rows(merge_specs(found, None if kept.is_empty() else kept))
        kept = pl.concat([kept, added], how="diagonal_relaxed").unique(
            ["cluster", "namespace", "name", "uid", "valid_from"], keep="last", maintain_order=True
        )
    return kept


def validities(frame: pl.DataFrame) -> list[tuple[str, int, int | None, str]]:
    told = frame.with_columns(pl.col("valid_from", "valid_to").to_physical()).sort(
        "name", "valid_from"
    )
    return [
        (name, since // 1000 - START, until and until // 1000 - START, text)
        for name, since, until, text in told.select("name", "valid_from", "valid_to", "spec").rows()
    ]


def test_what_vanished_between_two_imports_ends_with_the_first_reading() -> None:
    times = scrapes(-600, 3600) + scrapes(40_000, 50_000)
    kept = imported({"web": [(-900, hpa()), (20_000, None)]}, [0, 3600], times)
    found = found_specs({}, window_of(43_200, 46_800), times=times)
    (row,) = merge_specs(found, kept).rows(named=True)
    assert row["valid_to"] // 1000 - START == 43_210
    assert merge_specs(found, kept, namespaces=["other"]).is_empty()
    assert merge_specs(found, None).is_empty()


def test_a_manifest_that_is_given_later_counts_from_then_on() -> None:
    times = scrapes(-600, 7200)
    history = {"web": [(-900, hpa())]}
    kept = imported(history, [0, 3600], times)
    later = found_specs(history, window_of(3600, 7200), times=times,
                        manifests=[hpa(spec(behavior=BEHAVIOR_BLOCK))])  # fmt: skip
    added = merge_specs(later, kept)
    assert [(row[0], row[1]) for row in rows(added)] == [(0, 3600), (3600, None)]
    assert added["uid"].n_unique() == 1


def test_events_that_are_given_later_leave_the_past_alone(tmp_path: Path) -> None:
    times = scrapes(-600, 7200)
    fields = spec(behavior=BEHAVIOR_BLOCK)
    events = read(tmp_path, lines([at(-3000, "create", fields), at(5000, "patch", spec(high=12)),
                                   at(7300, "get", spec(high=12))]))  # fmt: skip
    history = {"web": [(-3000, hpa(fields)), (5000, hpa(spec(high=12)))]}
    kept = imported(history, [0, 3600], times)
    later = found_specs(history, window_of(3600, 7200), times=times, events=events)
    added = merge_specs(later, kept)
    assert sorted(row[:2] for row in rows(added)) == [(0, 3600), (3600, 5000), (5000, None)]


STATES: list[Any] = [
    None,
    hpa(),
    hpa(spec(high=11)),
    hpa(spec(CPU, MEMORY, low=3)),
    hpa(spec(RPS, behavior=BEHAVIOR_BLOCK)),
]
STEP = 900


# Not within the scrape before a change: a metric that ends then is not told any more.
CUTS = st.integers(61, 3000).map(lambda n: 900 * (n // 390) + n % 390)


@st.composite
def histories(draw: st.DrawFn) -> list[Moment]:
    """States that last longer than the lookback, so that nothing is overlooked."""
    chosen = draw(st.lists(st.sampled_from(STATES), min_size=1, max_size=8))
    return [(STEP * k - 450 + draw(st.integers(1, 200)), one) for k, one in enumerate(chosen)]


@settings(max_examples=effort(14), deadline=None)
@given(histories(), st.lists(CUTS, max_size=4, unique=True), st.booleans())
def test_windows_may_be_cut_anywhere(
    history: list[Moment], cuts: list[int], documented: bool
) -> None:
    times = scrapes(-900, 7200, 60)
    beside = {"manifests": [hpa(spec(RPS, behavior=BEHAVIOR_BLOCK))]} if documented else {}
    whole = imported({"web": history}, [0, 7200], times, **beside)
    parts = imported({"web": history}, [0, *sorted(cuts), 7200], times, **beside)
    told = validities(whole)
    assert told == validities(parts)
    for ts in times:
        second = ts // 1000 - START
        if second < 60:
            continue
        now = [one for since, one in history if since <= second]
        there = [row for row in told if row[1] <= second and (row[2] is None or second < row[2])]
        if not now or now[-1] is None or (now[-1] is STATES[4] and not documented):
            assert not there
        else:
            (row,) = there
            assert json.loads(row[3])["maxReplicas"] == now[-1].spec.max_replicas
            assert len(json.loads(row[3])["metrics"]) == len(now[-1].spec.metrics)
