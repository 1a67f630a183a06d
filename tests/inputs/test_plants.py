"""Plant files: what they mean, and the sentence about everything that they cannot mean."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from hpabatch.inputs.document_kinds import Selector
from hpabatch.inputs.plants import (
    ENTRY,
    SIGNAL,
    USED_BY,
    CapacityShare,
    PipelineOverride,
    PlantOverride,
    PodsOverride,
    SignalOverride,
    read_plant_file,
)
from tests.importers.mutations import check_mutations, complaint, given_keys, keys_of, refusal, says
from tests.inputs.parsed import parse_plant_file

DATA = Path(__file__).parents[2] / "data"
MI = 2**20 * 1000

FULL = """
- hpa: [shop/*, payments/api]
  where: max_replicas > 5
  signals:
    resource/cpu: {kind: divisible, base: 120m, ceiling: 2, startup: 500m, overload: queue,
                   queue: 3, request: 250m}
    external/depth{queue=orders}: {kind: backlog, rate: 300/m, queue: 40}
    resource/memory: {kind: age, base: 200Mi, growth: 10Mi/h, ceiling: none}
  pods:
    startup: [40s, {scheduling: 90s, starting: 30s}]
    reaction: 1s
    termination: 10s
    serves_while_terminating: true
    capacity: 20
    removal: statefulset
    shares: [1, 1.2]
    costs: [0, -100]
    mtbf: 2d
    restart: 20s
    surge: 50%
    unavailable: 0%
    initial_age: 2h
  pipelines:
    resource: {interval: 60s, phase: 7s, window: 30s, lag: 2s, first_sample: 20s, max_age: 5m}
    external: {lag: 5s}
  capacity: 80% of ceiling
- capacity: 5/s
"""


def test_every_key_means_what_the_page_says() -> None:
    first, second = parse_plant_file(FULL)
    assert first.selector == Selector(("shop/*", "payments/api"), "max_replicas > 5")
    assert first.signals == (
        (
            "resource/cpu",
            SignalOverride(
                kind="divisible",
                base_milli=120,
                ceiling_milli=2000,
                no_ceiling=False,
                startup_milli=500,
                overload="queue",
                queue_milli=3000,
                request_milli=250,
            ),
        ),
        (
            "external/depth{queue=orders}",
            SignalOverride(kind="backlog", rate_milli=5000, queue_milli=40_000),
        ),
        (
            "resource/memory",
            SignalOverride(
                kind="age", base_milli=200 * MI, growth_milli_per_hour=10 * MI, no_ceiling=True
            ),
        ),
    )
    assert first.pods == PodsOverride(
        startup_ms=((1000, 39_000), (90_000, 30_000)),
        reaction_ms=1000,
        termination_ms=10_000,
        serves_while_terminating=True,
        capacity=20,
        removal="statefulset",
        shares=(1000, 1200),
        costs=(0, -100),
        mtbf_ms=172_800_000,
        no_failures=False,
        restart_ms=20_000,
        surge_pct=50,
        unavailable_pct=0,
        initial_age_ms=7_200_000,
    )
    assert first.pipelines == (
        ("resource", PipelineOverride(60_000, 7000, 30_000, 2000, 20_000, 300_000)),
        ("external", PipelineOverride(lag_ms=5000)),
    )
    assert first.capacity == CapacityShare(800, "ceiling")
    assert second == PlantOverride(capacity=5000)
    assert second.place == "plant file, line 27: [1]"


def test_short_forms() -> None:
    assert parse_plant_file("capacity: 300m") == (PlantOverride(capacity=300),)
    (entry,) = parse_plant_file("pods: {startup: 500ms, shares: 2, mtbf: none}")
    assert entry.pods == PodsOverride(startup_ms=((500, 0),), shares=(2000,), no_failures=True)
    (entry,) = parse_plant_file("signals: {'*': {base: 1}}\ncapacity: 12.5% of rate")
    assert entry.signals == (("*", SignalOverride(base_milli=1000)),)
    assert entry.capacity == CapacityShare(125, "rate")


@pytest.mark.parametrize(
    ("rate", "milli"), [("5/s", 5000), ("300/m", 5000), ("1/h", 0), ("2/h", 1), ("1.5k / d", 17)]
)
def test_rates_are_rounded_half_up_to_thousandths_a_second(rate: str, milli: int) -> None:
    text = f"signals: {{external/q: {{rate: {rate}}}}}"
    if milli:
        assert parse_plant_file(text)[0].signals[0][1].rate_milli == milli
    else:
        assert "larger, got '1/h' (" in refusal(parse_plant_file, text)


def test_the_full_file_gives_every_key() -> None:
    assert given_keys(yaml.safe_load(FULL)) >= {name for _, name in keys_of(ENTRY)}


def test_every_mutation_is_fine_or_refused_by_its_key() -> None:
    document = yaml.safe_load(FULL)[0]
    refused = 0
    for part in ("signals", "pods", "pipelines", "capacity"):
        entry = {"hpa": "shop/*", "where": "x", part: document[part]}
        refused += check_mutations(parse_plant_file, entry, {"signals"})
    assert refused > 1000


def test_the_example_is_fine() -> None:
    assert len(read_plant_file(DATA / "plant.yaml")) == 4


def test_every_parameter_of_a_signal_has_a_kind() -> None:
    used = frozenset[str]().union(*USED_BY.values())
    assert used | {"kind"} == set(SIGNAL.names)


SENTENCES = {
    "": "file f.yaml: expected one document, got 0",
    "3": "expected a mapping with the keys hpa, where, signals, pods, pipelines, capacit",
    "{}": "expected one or more of signals, pods, pipelines, capacity, got none",
    "- hpa: shop/*": "[0]: expected one or more of signals, pods, pipelines, capacity, got none",
    "signals: {}": "signals: expected a mapping of signals, such as resource/cpu: {base: 120m}, go",
    "signals: [resource/cpu]": "signals: expected a mapping of signals, such as resource/cpu: {bas",
    "signals: {cpu: {base: 1}}": "signals.cpu: got 'cpu'",
    "signals: {resource/cpu: {}}": "signals.resource/cpu: got an empty mapping",
    "signals: {resource/cpu: {base: lots}}": "signals.resource/cpu.base: expected a quantity such ",
    "signals: {resource/cpu: {base: -1}}": "signals.resource/cpu.base: expected a quantity such as",
    "signals: {resource/cpu: {base: 1E}}": "signals.resource/cpu.base: expected at most 9,007,199,",
    "signals: {resource/cpu: {base: 2, ceiling: 1}}": "signals.resource/cpu.base: expected at most",
    "signals: {resource/cpu: {ceiling: 0}}": "signals.resource/cpu.ceiling: expected a quantity ab",
    "signals: {resource/cpu: {overload: que}}": "signals.resource/cpu.overload: expected one of dr",
    "signals: {resource/cpu: {kind: backlog}}": "signals.resource/cpu.kind: expected one of divisi",
    "signals: {external/q: {kind: divisible}}": "signals.external/q.kind: expected one of total, b",
    "signals: {external/q: {kind: backlog, base: 3}}": "signals.external/q.base: expected no base ",
    "signals: {external/q: {rate: 5}}": "signals.external/q.rate: expected an amount per time such",
    "signals: {external/q: {rate: 0/s}}": "signals.external/q.rate: expected an amount per time su",
    "signals: {external/q: {rate: x/s}}": "signals.external/q.rate: expected a quantity such as 25",
    "pods: 3": "pods: got 3",
    "pods: {}": "pods: got an empty mapping",
    "pods: {initialAge: 1h}": "; did you mean initial_age?",
    "pods: {startup: [[3s]]}": "pods.startup[0]: expected a duration such as 40s, or a mapping wit",
    "pods: {startup: {scheduling: 3s}}": "pods.startup.starting: expected a duration such",
    "pods: {surge: 25}": "pods.surge: expected a whole percentage from 0% to 1000%, such as 25%, g",
    "pods: {unavailable: 101%}": "pods.unavailable: expected a whole percentage from 0% to 100%, s",
    "pods: {mtbf: 5m}": "pods.mtbf: expected a duration such as 15s, 2h30m or 1d, at least 10m, or",
    "pods: {shares: [1, 0]}": "pods.shares[1]: expected a number above 0, at most 1000, of at most",
    "pods: {shares: [1, 2], costs: [1, 2, 3]}": "pods.costs: expected one cost for each of 2 class",
    "pods: {serves_while_terminating: 1}": "pods.serves_while_terminating: expected true or false,",
    "pipelines: {resorce: {lag: 1s}}": "pipelines.resorce: expected one of resource, custom, exter",
    "pipelines: {resource: {}}": "pipelines.resource: expected one or more of interval, p",
    "pipelines: {resource: {interval: 0s}}": "pipelines.resource.interval: expected a duration suc",
    "pipelines: {resource: {window: 2h}}": "pipelines.resource.window: expected a duration such as",
    "capacity: 80%": "capacity: got '80%'",
    "capacity: 80% of limit": "capacity: got '80% of limit'",
    "capacity: 0% of ceiling": "capacity: expected a share above 0%, at most 100%, got '0% of ceil",
    "capacity: 0": "capacity: got 0",
}


@pytest.mark.parametrize("text", SENTENCES)
def test_sentences(text: str) -> None:
    found = refusal(parse_plant_file, text)
    assert "file f.yaml" in found
    assert says(found, SENTENCES[text])


@given(st.text(max_size=60))
def test_no_text_gives_a_traceback(text: str) -> None:
    complaint(parse_plant_file, text)
