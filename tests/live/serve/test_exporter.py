"""Tests of the exporter: parsed back from the text, over HTTP, and checked by promtool."""

from __future__ import annotations

import subprocess
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from prometheus_client import generate_latest
from prometheus_client.parser import text_string_to_metric_families

from hpabatch.cluster.connection.wire import Request
from hpabatch.cluster.watch.watch import WatchState
from hpabatch.layout import codes
from hpabatch.live.apply.applier import Figures as Applied
from hpabatch.live.passes.result import ERROR_INTERNAL, PassResult, Problem
from hpabatch.live.passes.shadow import Shadow
from hpabatch.live.record.recorder import Figures
from hpabatch.live.serve.exporter import Exporter
from hpabatch.live.serve.metric_names import UPSTREAM_PREFIX as UPSTREAM
from hpabatch.model.versions import profile_for
from tests.live.made_passes import metrics_of, pass_of
from tests.live.metric_catalogue import CATALOGUE
from tests.real.prometheus import missing as no_prometheus
from tests.real.prometheus import program

CLUSTER = 'prod "east"\\\n'
FIGURES = Figures(
    rows_waiting=5, bytes_waiting=500, rows_written=70, parts_written=2,
    rows_refused=1, trouble="no space left",
)  # fmt: skip
APPLIED = Applied(leads=True, written=7, failed=2, held=3, void=4, foreign=1)
Samples = dict[tuple[str, tuple[tuple[str, str], ...]], float]


class Loop:
    """Publishes passes as the loop does."""

    def __init__(self, **options: Any) -> None:
        self.exporter = Exporter(profile_for("1.37"), CLUSTER, **options)
        self.shadow = Shadow(30_000)

    def publish(
        self, result: PassResult, recorder: Figures | None = None, applied: Applied | None = None
    ) -> None:
        self.exporter.publish(self.shadow.compare(result), recorder, applied)

    def samples(self) -> Samples:
        text = generate_latest(self.exporter.registry).decode()
        return {
            (sample.name, tuple(sorted(sample.labels.items()))): sample.value
            for family in text_string_to_metric_families(text)
            for sample in family.samples
        }


FULL: dict[str, Any] = {
    "watches": lambda: [
        WatchState("pods", synced=True, objects=10, relists=2, failed=1),
        WatchState("hpas"),
    ],
    "requests": lambda: {Request("get", "deployments.apps/scale", 404): 1},
    "clock_skew_s": lambda: -1.5,
}


def of(samples: Samples, name: str, **labels: str) -> float:
    return samples[name, tuple(sorted(labels.items()))]


def test_upstreams_counter_counts_each_metric_once_a_pass() -> None:
    loop = Loop()
    rows = metrics_of(
        [
            [(codes.SOURCE_RESOURCE, codes.METRIC_OK, 5), (codes.SOURCE_PODS, codes.METRIC_OK, 2)],
            [(codes.SOURCE_EXTERNAL, codes.METRIC_FETCH_FAILED, 0)],
            [(codes.SOURCE_RESOURCE, codes.METRIC_NOT_COMPUTED, 0)],
        ]
    )
    result = pass_of(1000, [5, 3, 0], [5, 3, 0], current=[3, 3, 0], metrics=rows)
    result = replace(result, error=np.array([0, ERROR_INTERNAL, 0], np.int8))
    loop.publish(result)
    loop.publish(replace(result, now_ms=result.now_ms + 15_000))
    samples = loop.samples()
    computed = {key[1]: n for key, n in samples.items() if key[0].endswith("computation_total")}
    assert computed == {
        (("action", "scale_up"), ("error", "none"), ("metric_type", "Resource")): 2,
        (("action", "scale_down"), ("error", "none"), ("metric_type", "Pods")): 2,
        (("action", "none"), ("error", "internal"), ("metric_type", "External")): 2,
    }


def test_series_of_deleted_hpas_vanish() -> None:
    loop = Loop()
    for k in range(3):
        loop.publish(pass_of(1000 + 15 * k, [5, 4], [3, 4], names=["a", "b"]))
    samples = loop.samples()
    a, b = ({"namespace": "shop", "hpa_name": name} for name in "ab")
    assert of(samples, "hpabatch_shadow_difference", **a) == 2
    assert of(samples, f"{UPSTREAM}desired_replicas", **a) == 5
    assert of(samples, "hpabatch_shadow_agreement_ratio") == 0.5
    assert ("hpabatch_shadow_difference", tuple(sorted(b.items()))) not in samples
    problem = Problem("shop", "c", "no rules")
    loop.publish(pass_of(1045, [4], [4], names=["b"], problems=[problem]))
    samples = loop.samples()
    assert {dict(labels)["hpa_name"] for _, labels in samples if "hpa_name" in dict(labels)} == {
        "b"
    }
    assert of(samples, f"{UPSTREAM}num_horizontal_pod_autoscalers") == 2
    assert of(samples, "hpabatch_undecidable_hpas") == 1
    assert of(samples, "hpabatch_passes_total") == 4
    assert of(samples, "hpabatch_last_pass_timestamp_seconds") == 1045


def test_an_hpa_without_a_decision_is_not_shown() -> None:
    loop = Loop()
    loop.publish(
        pass_of(1000, [0], [4], binding=[codes.BOUND_BY_NO_SCALE], metrics=metrics_of([[]]))
    )
    samples = loop.samples()
    assert not [key for key in samples if key[0].startswith(f"{UPSTREAM}desired")]
    assert of(samples, "hpabatch_shadow_hpas", state="undecided") == 1
    assert ("hpabatch_shadow_agreement_ratio", ()) not in samples


def test_writes_are_shown_by_what_became_of_them() -> None:
    loop = Loop()
    loop.publish(pass_of(1000, [5], [3]), None, APPLIED)
    samples = loop.samples()
    shown = {
        (name, *labels): n
        for (name, labels), n in samples.items()
        if name.startswith("hpabatch_apply")
    }
    writes = "hpabatch_apply_writes_total"
    assert shown == {
        ("hpabatch_apply_leads",): 1,
        (writes, ("result", "written")): 7,
        (writes, ("result", "failed")): 2,
        (writes, ("result", "waiting")): 3,
        (writes, ("result", "void")): 4,
        ("hpabatch_apply_foreign_changes_total",): 1,
    }


def test_a_dry_run_does_not_say_who_may_write() -> None:
    """An alert that nobody may write would be about every dry run."""
    loop = Loop(dry_run=True)
    loop.publish(pass_of(1000, [5], [3]), None, APPLIED)
    names = {name for name, *_ in loop.samples()}
    assert "hpabatch_apply_leads" not in names
    assert "hpabatch_apply_writes_total" in names


def test_every_family_is_in_the_catalogue_and_is_shown() -> None:
    loop = Loop(**FULL)
    for k in range(3):
        loop.publish(pass_of(1000 + 15 * k, [5], [3]), FIGURES, APPLIED)
    catalogue = {metric.name: metric for metric in CATALOGUE}
    text = generate_latest(loop.exporter.registry).decode()
    shown = {f.name: f for f in text_string_to_metric_families(text)}
    shown = {name: f for name, f in shown.items() if not name.startswith("process_")}
    assert set(shown) == set(catalogue)
    for name, family in shown.items():
        assert family.type == catalogue[name].kind
        labels = {label for sample in family.samples for label in sample.labels} - {"le"}
        assert labels == set(catalogue[name].labels)


@pytest.mark.skipif(bool(no_prometheus()), reason=no_prometheus())
def test_promtool_finds_nothing_to_say() -> None:
    loop = Loop(**FULL)
    for k in range(3):
        result = pass_of(1000 + 15 * k, [5, 3], [3, 3], names=["a", 'b"\\'])
        loop.publish(result, FIGURES, APPLIED)
    done = subprocess.run(
        [program("promtool"), "check", "metrics"],
        input=generate_latest(loop.exporter.registry), capture_output=True, check=False,
    )  # fmt: skip
    assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")
