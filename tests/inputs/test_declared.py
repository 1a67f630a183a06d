"""Files whose keys are declared: every key given, every mutation refused by its key, no traceback.

What a kind of value refuses is told once, wherever it is used.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from textwrap import indent
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from hpabatch.inputs.document_keys import Record
from hpabatch.inputs.grid import DIRECTION, POLICY, SET
from hpabatch.inputs.lenses import LENS
from hpabatch.inputs.plants import ENTRY, SIGNAL, USED_BY
from hpabatch.inputs.prices import PRICE_LIST
from hpabatch.inputs.scenarios import SCENARIO
from tests.importers.mutations import check_mutations, complaint, given_keys, keys_of, refusal, says
from tests.inputs import test_lenses, test_plants, test_policies, test_prices, test_scenarios
from tests.inputs.parsed import (
    parse_lens_file,
    parse_plant_file,
    parse_policy_sets,
    parse_price_file,
    parse_scenario,
)

Parse = Callable[[str, str], object]


def _parse_set(text: str, source: str) -> object:
    """Parse one policy set; what its name may be is told below."""
    return parse_policy_sets("own:\n" + indent(text, "  "), source)


def _plant_parts(document: Any) -> Iterator[Any]:
    for part in ("signals", "pods", "pipelines", "capacity"):
        yield {"hpa": "shop/*", "where": "x", part: document[0][part]}


# A full text, its records, how its parts are parsed, and the parts that are mutated.
FILES: dict[
    str, tuple[str, tuple[Record, ...], Parse, Callable[[Any], Iterator[Any] | list[Any]]]
] = {
    "scenario": (
        test_scenarios.FULL, (SCENARIO,), parse_scenario,
        lambda full: [*([step] for step in full["steps"]), full | {"steps": [{"growth": 1}]}],
    ),
    "plant": (test_plants.FULL, (ENTRY,), parse_plant_file, _plant_parts),
    "price": (test_prices.FULL, (PRICE_LIST,), parse_price_file, lambda full: [full]),
    "policy": (
        test_policies.FULL, (SET, DIRECTION, POLICY), _parse_set,
        lambda full: [full["slow.and-steady"]],
    ),
    "lens": (test_lenses.FULL, (LENS,), parse_lens_file, list),
}  # fmt: skip


@pytest.mark.parametrize("name", FILES)
def test_every_key_is_given_and_every_mutation_fine_or_refused_by_its_key(name: str) -> None:
    text, records, parse, parts_of = FILES[name]
    full = yaml.safe_load(text)
    known = {key for record in records for _, key in keys_of(record)}
    assert given_keys(full) >= known
    refused = sum(check_mutations(parse, part, {"signals"}) for part in parts_of(full))
    assert refused > 10 * len(known)


def test_every_parameter_of_a_signal_has_a_kind() -> None:
    used = frozenset[str]().union(*USED_BY.values())
    assert used | {"kind"} == set(SIGNAL.names)


@pytest.mark.parametrize("name", FILES)
@given(text=st.text(max_size=60))
def test_no_text_gives_a_traceback(name: str, text: str) -> None:
    complaint(FILES[name][2], text)


_ONE = "{a: {scaleUp: {policies: [{type: Pods,"
SENTENCES: dict[Callable[[str, str], object], dict[str, str]] = {
    parse_scenario: {
        "- growth: 1.4x": "steps[0].growth: expected a number from 0 to 1000 of at most three dec",
        "- growth: 1.2345": "steps[0].growth: expected at most three decimals, got 1.2345",
        "- grwoth: 1": "; did you mean growth?",
        "- growth: 1\n  growth: 2": "expected the key 'growth' once, got it twice",
        "- growth: 1\n  shift: 1h": "steps[0].shift: expected one action, got growth and shift",
        "- hpa: a/b": "steps[0]: got a step without an action",
        "growth: 1": "expected a list of steps, each after a dash, got a mapping",
        "description: x": "steps: expected a list of steps, each after a dash, got nothing",
        "5": "expected a list of steps, each after a dash, got 5",
        "": "file f.yaml: expected one document, got 0",
        "- growth: 1\n---\n- growth: 2": "file f.yaml: expected one document, got 2",
        "[]": "steps: expected a list of steps, each after a dash, got an empty",
        "- spike: {at: 1h, for: -20m, factor: 2}": "steps[0].spike.for: expected a duration such",
        "- spike: {at: 1h, for: 20m, factor: 2, ramp: 11m}": "steps[0].spike.ramp: expected at mo",
        "- spike: {at: 1h, for: 20m, factor: 2, every: 10m}": "steps[0].spike.every: expected at ",
        "- spike: {at: 1h, for: 20m}": "steps[0].spike.factor: expected a number from 0 to 10",
        "- rollout: [1h, 2h]\n- rollout: {at: [1h, 2h], every: 1d}": "steps[1].rollout.every: exp",
        "- rollout: 2026-10-07T12:00:00": "steps[0].rollout: '2026-10-07T12:00:00' has no zone: w",
        "- rollout: noon": "steps[0].rollout: expected a time: a duration after the run's start (",
        "- shift: 0s": "steps[0].shift: expected a duration such as 3h (later) or -3h (earlier), n",
        "- repeat: weekly": "steps[0].repeat: expected week, day, or a duration of at least 1m suc",
        "- set: {at: 1h}": "steps[0].set: expected minReplicas, maxReplicas or both, got neither",
        "- set: {minReplicas: 9, maxReplicas: 5}": "steps[0].set.minReplicas: expected at most ma",
        "- lose: {share: 0%, at: 1h}": "steps[0].lose.share: expected a share above 0%, at most 1",
        "- lose: {share: 1.23%, at: 1h}": "steps[0].lose.share: expected at most one decimal, got",
        "- outage: {api: metrics, at: 1h, for: 1h}": "steps[0].outage.api: expected one of resourc",
        "- outage: {api: custom, at: 1h, for: 1h, every: 1m}": "steps[0].outage.every: expected at",
        "- {rollout: 1h, signals: resource/cpu}": "steps[0].signals: expected no signals with roll",
        "- {growth: 1, hpa: 'shop/web,shop/cart'}": "steps[0].hpa: expected lower-case letters, d",
        "- growth: 1\n  hpa: */web": "(line 2, column 9); put a name that begins with * in quotes",
        "- {growth: 1, signals: resouce/cpu}": "; did you mean resource?",
        "- growth: {{ .Values.growth }}": "looks like an unrendered Helm template (line 1:",
        "- growth: [": "not YAML",
    },
    parse_plant_file: {
        "3": "expected a mapping with the keys hpa, where, signals, pods, pipelines, capacit",
        "{}": "expected one or more of signals, pods, pipelines, capacity, got none",
        "- hpa: shop/*": "[0]: expected one or more of signals, pods, pipelines, capacity, got no",
        "signals: {}": "signals: expected a mapping of signals, such as resource/cpu: {base: 120m",
        "signals: {cpu: {base: 1}}": "signals.cpu: got 'cpu'",
        "signals: {resource/cpu: {base: 1E}}": "signals.resource/cpu.base: expected at most 9,007,",
        "signals: {resource/cpu: {base: 2, ceiling: 1}}": "signals.resource/cpu.base: expected at ",
        "signals: {resource/cpu: {ceiling: 0}}": "signals.resource/cpu.ceiling: expected a quanti",
        "signals: {resource/cpu: {kind: backlog}}": "signals.resource/cpu.kind: expected one of di",
        "signals: {external/q: {kind: backlog, base: 3}}": "signals.external/q.base: expected no b",
        "signals: {external/q: {rate: 0/s}}": "signals.external/q.rate: expected an amount per ti",
        "signals: {external/q: {rate: x/s}}": "signals.external/q.rate: expected a quantity such ",
        "pods: {startup: [[3s]]}": "pods.startup[0]: expected a duration such as 40s, or a mapping",
        "pods: {startup: {scheduling: 3s}}": "pods.startup.starting: expected a duration such",
        "pods: {surge: 25}": "pods.surge: expected a whole percentage from 0% to 1000%, such as 25",
        "pods: {mtbf: 5m}": "pods.mtbf: expected a duration such as 15s, 2h30m or 1d, at least 10m",
        "pods: {shares: [1, 0]}": "pods.shares[1]: expected a number above 0, at most 1000, of at",
        "pods: {shares: [1, 2], costs: [1, 2, 3]}": "pods.costs: expected one cost for each of 2 ",
        "pipelines: {resorce: {lag: 1s}}": "pipelines.resorce: expected one of resource, custom, ",
        "pipelines: {resource: {}}": "pipelines.resource: expected one or more of interval, p",
        "capacity: 80% of limit": "capacity: got '80% of limit'",
        "capacity: 0% of ceiling": "capacity: expected a share above 0%, at most 100%, got '0% of",
    },
    parse_price_file: {
        "core_hour: 1": "currency: expected a currency such as EUR, got nothing",
        "currency: EUR": "expected one or more of core_hour, gib_hour, pod_hour, got no price",
        "{currency: ' ', core_hour: 1}": "currency: expected a currency such as EUR, got an empty",
        "{currency: EUR, core_hour: .nan}": "core_hour: expected a price: a number from 0 to 1,00",
        "{currency: EUR, core_hour: 1, overrides: {}}": "overrides: expected a list of overrides,",
        "{currency: EUR, core_hour: 1, overrides: [{core_hour: 2}]}": "got an override of every H",
        "{currency: EUR, core_hour: 1, overrides: [{hpa: a/b}]}": "overrides[0]: expected one or ",
        "{currency: EUR, core_hour: 1, overrides: [{namespace: a/b, pod_hour: 1}]}":
        "overrides[0].namespace: expected the name of a namespace, such as shop or team-*",
    },
    parse_policy_sets: {
        "{}": "expected a mapping of names to policy sets, got an empty mapping",
        "{fast: {scaleUp: {selectPolicy: Max}}}":
        "fast: expected another name of a policy set, got fast, which comes with hpabatch",
        "{today: {scaleUp: {selectPolicy: Max}}}":
        "today: expected another name of a policy set, got today, which means today's pol",
        "{'x2,y': {scaleUp: {selectPolicy: Max}}}":
        "x2,y: expected a policy set's name of up to 63 lower-case letters, digits, - . _",
        "{a: }": "a: expected a mapping with the keys scaleUp, scaleDown, got nothing",
        "{a: {scaleUp: {}}}": "a.scaleUp: expected one or more of selectPolicy, policies, got an ",
        "{a: {scaleUp: {policies: 3}}}": "a.scaleUp.policies: expected a list of policies, each a",
        f"{_ONE} value: 1, periodSeconds: 1801}}]}}}}}}":
        "a.scaleUp.policies[0].periodSeconds: expected a whole number from 1 to 1,800, go",
    },
    parse_lens_file: {
        "[{lag: 1s}]": "[0].signal: expected resource/cpu, resource/memory or pods/METRIC, got",
        "[{signal: external/q}]": "[0].signal: expected resource/cpu, resource/memory or pods/MET",
        "[{signal: resource/cpu, lag: 2h}]": "[0].lag: expected a duration such as 30s (seen late",
        "[{signal: resource/cpu, lag: true}]": "[0].lag: expected a duration such as 30s (seen la",
        "[{signal: resource/cpu, scale: 0}]": "[0].scale: expected a number from 0.01 to 100, got",
        "[{signal: resource/cpu, lag: 1s}, {signal: resource/memory, scale: 2}]":
        "expected one lag and one smoothing of resource/cpu and resource/memory, whose samples "
        "stand in one row; got others for resource/memory",
    },
}  # fmt: skip


@pytest.mark.parametrize("parse", SENTENCES, ids=lambda parse: parse.__name__)
def test_what_cannot_be_meant_is_a_sentence(parse: Callable[[str, str], object]) -> None:
    for text, told in SENTENCES[parse].items():
        found = refusal(parse, text)
        assert "file f.yaml" in found
        assert says(found, told), (text, found)
