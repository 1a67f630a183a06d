"""Lens files: what they mean, and the sentence about everything that they cannot mean."""

from __future__ import annotations

from hpabatch.inputs.lenses import (
    CPU,
    MEMORY,
    Lens,
    disagreeing,
    lens_of,
    lens_of_metric,
    lenses_of_spec,
    ratio_words,
    ratios_words,
    words_of,
)
from hpabatch.model.objects.defaults import DEFAULT_METRICS
from hpabatch.model.objects.hpa import ContainerResourceMetricSource, HPASpec, MetricSpec
from hpabatch.model.plant import Pipeline, Plant, Sight, Signal
from tests.inputs.parsed import parse_lens_file

FULL = """
- {signal: resource/cpu, cluster: c1, lag: -30s, smoothing: 5m, scale: 1.25}
- {signal: "pods/queue{a=b}", lag: 1m30s}
"""


def test_every_key_means_what_the_page_says() -> None:
    found = parse_lens_file(FULL)
    assert found == (
        Lens("resource/cpu", "c1", -30_000, 300_000, 1.25),
        Lens("pods/queue{a=b}", None, 90_000),
    )
    assert found[0].place == "lens file, line 2: [0]"
    assert words_of(found) == (
        "c1: resource/cpu lag -30s, smoothing 5m, scale 1.25; pods/queue{a=b} lag 1m30s"
    )
    assert parse_lens_file("[{signal: resource/cpu, lag: 0}]") == (Lens("resource/cpu"),)
    assert words_of([Lens("resource/cpu")]) == "none"


def test_the_last_lens_of_a_signal_counts() -> None:
    lenses = [Lens(CPU, None, 15_000), Lens(CPU, "a", 30_000), Lens("pods/rps", "b", scale=2.0)]
    assert lens_of(lenses, "a", CPU).lag_ms == 30_000
    assert lens_of(lenses, "b", CPU).lag_ms == 15_000
    assert lens_of(lenses, "b", "pods/rps").scale == 2
    assert not lens_of(lenses, "a", "pods/rps").changes
    assert not lens_of([], "a", CPU).changes


def test_memory_has_the_times_of_cpu_and_no_scale_of_its() -> None:
    seen = lens_of([Lens(CPU, None, 30_000, 60_000, 1.2)], "a", MEMORY)
    assert seen == Lens(MEMORY, None, 30_000, 60_000)
    assert disagreeing([Lens(CPU, None, 30_000)]) is None
    assert disagreeing([Lens(CPU, "a", 30_000), Lens(MEMORY, "a", 30_000, scale=0.9)]) is None
    found = disagreeing([Lens(CPU, "a", 30_000), Lens(MEMORY, "a", 15_000)])
    assert found is not None
    assert (found.cluster, found.signal) == ("a", MEMORY)


def test_words() -> None:
    assert words_of([]) == words_of([Lens(CPU)]) == "none"
    assert str(Lens(CPU)) == f"{CPU} as recorded"
    found = words_of([Lens(CPU, "a", -30_000, 60_000), Lens(MEMORY, scale=0.5)])
    assert found == f"a: {CPU} lag -30s, smoothing 1m; {MEMORY} scale 0.5"
    assert ratio_words(Lens(CPU, "a", scale=1.25)) == f"a: {CPU} scale 1.25, or all targets / 1.25"
    ratio = Lens(CPU, scale=1.25, as_if="as if the target were 64 instead of 80")
    words = f"{ratio}, as if the target were 64 instead of 80"
    assert ratios_words([ratio], [ratio]) == [f"{words} (applied)"]
    assert ratios_words([ratio], []) == [f"{words} (not applied; --lens ratio applies it)"]


def test_a_metric_has_the_lens_of_its_samples() -> None:
    lenses = [Lens(CPU, None, 30_000, scale=2.0), Lens("pods/rps", "a", 15_000)]
    assert lens_of_metric(lenses, "a", "container/app/cpu").scale == 2
    assert lens_of_metric(lenses, "a", "container/app/memory") == Lens(MEMORY, None, 30_000)
    assert lens_of_metric(lenses, "a", "pods/rps").lag_ms == 15_000
    assert not lens_of_metric(lenses, "b", "pods/rps").changes
    assert not lens_of_metric(lenses, "a", "external/depth").changes
    assert not lens_of_metric(lenses, "a", "object/Ingress/web/rps").changes


def test_a_spec_has_the_lenses_of_its_own_metrics() -> None:
    cpu = DEFAULT_METRICS[0]
    assert cpu.resource is not None
    container = MetricSpec(
        "ContainerResource",
        container_resource=ContainerResourceMetricSource("cpu", "app", cpu.resource.target),
    )
    lenses = [Lens(CPU, "a", 30_000), Lens(CPU, "b", 45_000), Lens("pods/rps", "a", scale=2.0)]
    spec = HPASpec(metrics=(cpu, container))
    assert lenses_of_spec(lenses, "a", spec) == (Lens(CPU, "a", 30_000),)
    assert lenses_of_spec(lenses, "c", spec) == ()
    assert lenses_of_spec(lenses, "a", HPASpec()) == ()


def test_what_pods_did_is_not_what_a_controller_sees() -> None:
    late, early = Lens(CPU, "a", -30_000, 60_000, 1.2), Lens(CPU, "a", 30_000, 60_000, 1.2)
    assert late.of_recording == Lens(CPU, "a", -30_000)
    assert not early.of_recording.changes
    assert late.sight == Sight(0, 60_000, 1_200_000)
    assert early.sight == Sight(30_000, 60_000, 1_200_000)
    assert Lens(CPU).sight == Sight()


def test_a_mean_of_samples_reaches_back_over_their_intervals() -> None:
    minute = Pipeline(interval_ms=60_000, window_ms=15_000, lag_ms=2_000)
    windows = [Sight(0, ms).through(minute).window_ms for ms in (0, 1, 60_000, 60_001, 300_000)]
    assert windows == [15_000, 15_000, 15_000, 75_000, 255_000]
    seen = Sight(30_000).through(minute)
    assert (seen.lag_ms, seen.max_age_ms) == (32_000, minute.max_age_ms)
    assert Sight().through(minute) == minute
    plant = Plant({CPU: Signal("divisible", sight=Sight(30_000))}, pipelines={"resource": minute})
    assert plant.pipeline_of(plant.signals[CPU]) == seen
    assert plant.pipeline_of(Signal("divisible", api="custom")) == Pipeline()
