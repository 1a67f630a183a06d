"""A history's tables as columns: sums over containers, look-ups, spacing, selectors."""

from __future__ import annotations

from pathlib import Path

import pytest

from hpabatch.engine.pod_rows import visible_samples
from hpabatch.engine.recording import Recording
from hpabatch.engine.requests import RequestLookup
from hpabatch.history.reader import open_history
from tests.engine.naive_align import Row, Tables
from tests.engine.small_history import (
    METRICS,
    SHOP,
    T0,
    empty_tables,
    hpa_row,
    pod_row,
    request_row,
    scale_row,
    state_row,
    usage_row,
    write_history,
)

PLACE = ("c1", "shop")


def record(folder: Path, delay: int = 0, **tables: list[Row]) -> Recording:
    """Return a recording of one pod `web-0` without samples worth a look, and the given tables."""
    base: Tables = empty_tables()
    base["pods"] = [pod_row("web-0")]
    base["pod_requests"] = [request_row("web-0")]
    base["pod_states"] = [state_row("web-0")]
    base["pod_metrics"] = [usage_row("web-0", T0, 10)]
    base["scales"] = [scale_row("web", T0, 1)]
    base["hpas"] = [hpa_row("one", "web", METRICS[:1])]
    return Recording(open_history(write_history(base | tables, folder)), delay)


def external(series: str, *instants: int, **more: object) -> list[Row]:
    row = SHOP | {"metric": "lag", "selector": "", "series": series, "fetched_at": None} | more
    return [row | {"ts": T0 + ms, "value_milli": ms} for ms in instants]


def test_containers_are_summed_and_memory_is_counted_in_thousandths(tmp_path: Path) -> None:
    rows = [usage_row("web-0", T0, 10), usage_row("web-0", T0, 32, "proxy", memory_bytes=6)]
    recording = record(tmp_path, pod_metrics=rows)
    assert recording.pod_samples("cpu", "").value_milli.tolist() == [42]
    assert recording.pod_samples("memory", "").value_milli.tolist() == [1_030_000]
    assert recording.pod_samples("cpu", "proxy").value_milli.tolist() == [32]
    none = recording.pod_samples("cpu", "nobody")
    assert (none.ts_ms.tolist(), none.present.tolist()) == ([T0], [0])
    assert recording.pod_samples("nvidia.com/gpu", "").present.tolist() == [0]


def test_an_item_is_seen_when_its_last_container_was_fetched(tmp_path: Path) -> None:
    rows = [
        usage_row("web-0", T0, 1, fetched_at=T0 + 3),
        usage_row("web-0", T0, 1, "proxy", fetched_at=T0 + 5),
        usage_row("web-0", T0 + 50, 1),
    ]
    recording = record(tmp_path, 7, pod_metrics=rows)
    assert recording.pod_samples("cpu", "").seen_ms.tolist() == [T0 + 5, T0 + 57]
    assert recording.span_ms() == (T0 + 3, T0 + 57)


def test_the_spacing_is_that_of_one_pod_or_series(tmp_path: Path) -> None:
    # Three series, each every 60 s but 5 s apart from one another.
    rows = [
        row
        for k, series in enumerate(("a", "b", "c"))
        for row in external(series, *(60_000 * n + 5_000 * k for n in range(4)))
    ]
    assert record(tmp_path, external_metrics=rows).sample_spacing_ms() == 60_000


def test_the_spacing_of_two_metrics_of_a_pod_is_that_of_each(tmp_path: Path) -> None:
    custom: Row = SHOP | {"target": None, "uid": "uid-web-0", "pod": "web-0", "selector": ""}
    custom |= {"window_ms": None, "fetched_at": None, "value_milli": 1}
    rows = [
        custom | {"metric": metric, "ts": T0 + 30_000 * n + shift}
        for metric, shift in (("a", 0), ("b", 1_000))
        for n in range(5)
    ]
    assert record(tmp_path, pod_custom_metrics=rows).sample_spacing_ms() == 30_000


def test_one_sample_has_no_spacing(tmp_path: Path) -> None:
    assert record(tmp_path).sample_spacing_ms() == 0


def test_a_metric_is_found_by_its_whole_key(tmp_path: Path) -> None:
    rows = external("a", 0) + external("a", 1, selector="queue=b") + external("z", 2, cluster="c2")
    recording = record(tmp_path, external_metrics=rows)
    assert recording.external_samples(PLACE, "lag", "").value_milli.tolist() == [0]
    assert recording.external_samples(PLACE, "lag", "queue=b").value_milli.tolist() == [1]
    assert recording.external_samples(("c2", "shop"), "lag", "").value_milli.tolist() == [2]
    for place, metric, selector in (
        (PLACE, "lag", "queue=c"),
        (PLACE, "lags", ""),
        (("c3", ""), "lag", ""),
    ):
        found = recording.external_samples(place, metric, selector)
        assert (found.first.tolist(), found.ts_ms.size) == ([0], 0)
    assert recording.object_samples(PLACE, "Ingress", "a", "b", "").ts_ms.size == 0
    assert recording.custom_samples("rps", "").first.tolist() == [0, 0]


@pytest.mark.parametrize(
    ("selector", "expected"),
    [
        ("app=web", ["web-0", "web-1"]),
        ("app=web,tier!=db", ["web-0"]),
        ("tier", ["api-0", "web-1"]),
        ("app in (api,web),!tier", ["web-0"]),
        ("app notin (web)", ["api-0"]),
        ("app=nobody", []),
        ("app=(", []),
        ("", []),
        (None, ["web-0"]),
    ],
)
def test_pods_by_selector_or_by_owner(
    tmp_path: Path, selector: str | None, expected: list[str]
) -> None:
    pods = [
        pod_row("web-0"),
        pod_row("web-1", target=None, labels={"app": "web", "tier": "db"}),
        pod_row("api-0", labels={"app": "api", "tier": "x"}),
        pod_row("web-7", namespace="other"),
    ]
    recording = record(tmp_path, pods=pods)
    found = recording.pods_of(PLACE, "web", selector).tolist()
    assert sorted(recording.pods.name[p] for p in found) == expected


def test_a_sample_taken_in_the_future_counts_once_it_is_fetched(tmp_path: Path) -> None:
    # A node whose clock is ahead: its sample is the newest until real time passes it.
    rows = [
        usage_row("web-0", T0 + 90_000, 2, fetched_at=T0),
        usage_row("web-0", T0 + 30_000, 1, fetched_at=T0 + 30_000),
    ]
    recording = record(tmp_path, pod_metrics=rows)
    source = recording.pod_samples("cpu", "")
    now = source.ts_ms.copy()
    now[:] = [T0, T0 + 60_000]
    found = visible_samples(source, 0, now, 60_000)
    assert source.value_milli[found].tolist() == [2, 2]


def test_requests_follow_their_validity(tmp_path: Path) -> None:
    rows = [
        request_row("web-0", valid_from=T0, cpu_milli=100),
        request_row("web-0", "mesh", kind="sidecar", valid_from=T0, cpu_milli=10),
        request_row("web-0", valid_from=T0 + 5, cpu_milli=200),
        request_row("web-0", "big", kind="init", index=1, valid_from=T0, cpu_milli=900),
        request_row("web-0", "", kind="overhead", valid_from=T0, cpu_milli=7),
        request_row("web-0", "", kind="pod", valid_from=T0 + 9, cpu_milli=None, memory_milli=5),
    ]
    pods = [pod_row("bare-0"), pod_row("web-0")]
    lookup = RequestLookup(record(tmp_path, pods=pods, pod_requests=rows), pod_level_gate=True)
    assert lookup.change_times(1) == [T0, T0 + 5, T0 + 9]
    assert lookup.request(1, T0 - 99, "cpu", "") == (1, 110)
    assert lookup.request(1, T0 + 4, "cpu", "") == (1, 110)
    assert lookup.request(1, T0 + 5, "cpu", "") == (1, 210)
    assert lookup.request(1, T0 + 5, "cpu", "mesh") == (1, 10)
    # Init containers and overhead count as soon as the pod has requests of its own.
    assert lookup.request(1, T0 + 9, "cpu", "") == (1, 917)
    assert lookup.request(1, T0 + 9, "memory", "") == (1, 5 + 1_024_000)
    assert lookup.request(1, T0 + 9, "cpu", "nobody")[0] == 0
    assert lookup.request(0, T0, "cpu", "") == (0, 0)
    gated = RequestLookup(record(tmp_path, pods=pods, pod_requests=rows), pod_level_gate=False)
    assert gated.request(1, T0 + 9, "cpu", "") == (1, 210)
