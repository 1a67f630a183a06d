"""Phases and readiness of pods, and since when."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import polars as pl
from hypothesis import given, settings
from hypothesis import strategies as st

from hpabatch.importers.prometheus.client.samples import Findings, Span
from hpabatch.importers.prometheus.pods.states import STATES, state_rows
from tests.effort import effort
from tests.importers.prometheus.ksm import CUTS, SPAN, at, found_pods, gauge, owned_by, pod, steady
from tests.importers.prometheus.made import Series

PHASES = ("Pending", "Running", "Succeeded", "Failed", "Unknown")
CONDITIONS = ("true", "false", "unknown")
NEW = found_pods(
    [(pod(), steady(1000, 4000))],
    owners=[pod(**owned_by("StatefulSet", "web"))],
    created=[(pod(), 990)],
    started=[(pod(), 995)],
)
OLD = found_pods([(pod(), steady(0, 4200))], created=[(pod(), 100)], started=[(pod(), 105)])


def shown(label: str, values: tuple[str, ...], *said: tuple[int, str]) -> list[Series]:
    """Return the series of a pod that says these values at these times (s)."""
    uid = pod()
    return [
        ({**uid, label: value}, at(*((s, value == current) for s, current in said)))
        for value in values
    ]


def phases(*said: tuple[int, str]) -> list[Series]:
    return shown("phase", PHASES, *said)


def conditions(*said: tuple[int, str]) -> list[Series]:
    return shown("condition", CONDITIONS, *said)


def rows(
    phase: list[Series],
    ready: list[Series],
    ready_time: list[Series] | None = None,
    pods: pl.DataFrame = NEW,
    initial: bool = False,
    **options: Any,
) -> list[tuple[Any, ...]]:
    """Return (s, phase, ready, transition s)."""
    times = None if ready_time is None else gauge("ready_time", ready_time)
    found = state_rows(
        gauge("phase", phase),
        gauge("ready", ready),
        times,
        pods,
        SPAN,
        options.pop("findings", Findings()),
        initial=initial,
        **options,
    )
    assert found.schema == STATES
    picked = found.select("ts", "phase", "ready", "last_transition").rows()
    return [(ts // 1000, p, r, since and since // 1000) for ts, p, r, since in picked]


def test_a_pod_becomes_ready_and_fails() -> None:
    phase = phases((1000, "Pending"), (1030, "Running"), (1060, "Running"), (1090, "Failed"))
    ready = conditions((1030, "false"), (1060, "true"), (1090, "false"))
    pods = NEW.with_columns(started=pl.lit(1_012_000, dtype=pl.Int64))
    assert rows(phase, ready, pods=pods) == [
        (1000, "Pending", None, None),
        # The condition came with the start.
        (1030, "Running", "False", 1012),
        (1060, "Running", "True", 1060),
        (1090, "Failed", "False", 1090),
    ]


def test_the_recorded_time_counts_where_it_fits() -> None:
    phase = phases(*((s, "Running") for s in range(1000, 1200, 30)))
    ready = conditions(
        *((1000, "false"), (1030, "true"), (1060, "true"), (1090, "false"), (1120, "true"))
    )
    # Whole seconds, cut off; the series is away while the pod is not ready.
    times = [(pod(), at((1030, 1000), (1060, 1000), (1120, 1119)))]
    assert rows(phase, ready, times) == [
        (1000, "Running", "False", 995),
        (1030, "Running", "True", 1000),
        (1090, "Running", "False", 1090),
        (1120, "Running", "True", 1119),
    ]
    # One that is later than the scrape, or older than the state before, does not.
    wrong = [(pod(), at((1030, 1031), (1060, 1031), (1120, 1029)))]
    assert rows(phase, ready, wrong)[1:] == [
        (1030, "Running", "True", 1030),
        (1090, "Running", "False", 1090),
        (1120, "Running", "True", 1120),
    ]


def test_some_exporters_tell_the_time_of_any_status() -> None:
    phase = phases(*((s, "Running") for s in range(1000, 1100, 30)))
    ready = conditions((1000, "false"), (1030, "true"), (1060, "false"), (1090, "unknown"))
    times = [(pod(), at((1000, 996), (1030, 1012), (1060, 1044), (1090, 1066)))]
    assert [row[2:] for row in rows(phase, ready, times)] == [
        *(("False", 996), ("True", 1012), ("False", 1044), ("Unknown", 1066))
    ]


def test_a_flap_between_two_scrapes_shows_in_the_time() -> None:
    phase = phases(*((s, "Running") for s in range(1000, 1100, 30)))
    ready = conditions(*((s, "true") for s in range(1000, 1100, 30)))
    times = [(pod(), at((1000, 998), (1030, 998), (1060, 1041), (1090, 1041)))]
    assert rows(phase, ready, times) == [
        (1000, "Running", "True", 998),
        (1060, "Running", "True", 1041),
    ]


def test_what_held_before_the_window() -> None:
    times = range(300, 4201, 30)
    phase = phases(*((s, "Running") for s in times))
    ready = conditions(*((s, "true" if s < 2000 else "false") for s in times))
    assert rows(phase, ready, pods=OLD) == [(2010, "Running", "False", 2010)]
    assert rows(phase, ready, pods=OLD, initial=True) == [
        (600, "Running", "True", 105),
        (2010, "Running", "False", 2010),
    ]
    known = [(pod(), [(1000 * s, 400.0) for s in times if s < 2000])]
    assert rows(phase, ready, known, pods=OLD, initial=True)[0] == (600, "Running", "True", 400)


def test_a_change_of_the_phase_alone_keeps_the_transition() -> None:
    phase = phases(*((s, "Running" if s < 2000 else "Unknown") for s in range(300, 4201, 30)))
    ready = conditions(*((s, "true") for s in range(300, 4201, 30)))
    assert rows(phase, ready, pods=OLD) == [(2010, "Unknown", "True", 105)]
    before = pl.DataFrame({"uid": ["u1"], "ready": ["True"], "last_transition": [444_000]})
    assert rows(phase, ready, pods=OLD, before=before) == [(2010, "Unknown", "True", 444)]
    other = before.with_columns(ready=pl.lit("False"))
    assert rows(phase, ready, pods=OLD, before=other) == [(2010, "Unknown", "True", 105)]


def test_a_phase_that_is_not_recorded() -> None:
    findings = Findings()
    ready = conditions((1000, "false"), (1030, "true"))
    assert rows([], ready, findings=findings) == [
        (1000, "", "False", 995),
        (1030, "Running", "True", 1030),
    ]
    assert findings.counts == {("assumed", "phase of a pod"): 2}
    assert rows(phases((1000, "Running")), []) == [(1000, "Running", None, None)]


def test_states_without_uid_go_by_name_and_unknown_pods_are_left_out() -> None:
    def nameless(series: list[Series]) -> list[Series]:
        return [({k: v for k, v in one.items() if k != "uid"}, p) for one, p in series]

    phase = nameless(phases((1000, "Pending"), (1030, "Running")))
    found = state_rows(
        gauge("phase", phase), gauge("ready", []), None, NEW, SPAN, Findings(), initial=False
    )
    assert found["uid"].to_list() == ["u1", "u1"]
    assert found["target"].to_list() == ["web", "web"]
    findings = Findings()
    stranger = [({**one, "uid": "x"}, points) for one, points in phases((1000, "Pending"))]
    assert rows(stranger, [], findings=findings) == []
    assert findings.counts == {("no pod", "namespace shop"): 1}


STEPS = range(300, 4201, 30)


@settings(max_examples=effort(16), deadline=None)
@given(
    st.lists(st.sampled_from(["stay"] * 6 + list(CONDITIONS)), min_size=131, max_size=131),
    st.integers(0, 130),
    CUTS,
)
def test_windows_cut_anywhere_say_the_same(changes: list[str], begin: int, cuts: list[int]) -> None:
    current, said = "false", []
    for s, change in list(zip(STEPS, changes, strict=True))[begin:]:
        current = current if change == "stay" else change
        said.append((s, current))
    born = STEPS[begin] - 10
    pods = found_pods([(pod(), steady(STEPS[begin], 4200))], created=[(pod(), born)])

    def window(span: Span, before: pl.DataFrame | None) -> pl.DataFrame:
        return state_rows(
            gauge("phase", phases(*((s, "Running") for s, _ in said)), span),
            gauge("ready", conditions(*said), span),
            None,
            pods,
            span,
            Findings(),
            initial=span.after_ms == 600_000,
            before=before,
        )

    bounds = [600_000, *(1000 * s for s in sorted(cuts)), 4_200_000]
    parts: list[pl.DataFrame] = []
    for a, b in pairwise(bounds):
        before = pl.concat(parts) if parts else None
        parts.append(window(Span(a, b, 300_000), before))
    assert pl.concat(parts).rows() == window(SPAN, None).rows()
