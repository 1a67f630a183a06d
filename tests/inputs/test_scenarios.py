"""Scenario files: what they mean, and the sentence about everything that they cannot mean."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from hpabatch.errors import UsageError
from hpabatch.inputs.scenarios import (
    SCENARIO,
    parse_growth,
    parse_scenario,
    read_scenario,
)
from hpabatch.model.scenario import (
    WEEK_MS,
    Growth,
    Lose,
    Moment,
    Outage,
    Overlay,
    Repeat,
    Rollout,
    Scale,
    SetBounds,
    Shift,
    Spike,
    Times,
)
from tests.importers.mutations import (
    check_mutations,
    complaint,
    given_keys,
    keys_of,
    refusal,
)

DATA = Path(__file__).parents[2] / "data" / "scenarios"
S, M, H = 1000, 60_000, 3_600_000
NOON = Moment(1_791_374_400_000, relative=False)

FULL = """
description: every key
steps:
- growth: {factor: 1.4, from: 6h, ramp: 30m}
  hpa: [shop/*, prod/batch/etl]
  where: max_replicas > 5
  signals: [resource/cpu, external/*]
- shift: {by: -3h}
- spike: {at: 12h, for: 20m, factor: 3, ramp: 2m, every: 1d}
- repeat: {period: week, from: 2026-10-07T12:00:00Z, at: 1d}
- overlay: {history: ., hpa: shop/web, factor: 0.5, at: 6h}
- set: {minReplicas: 3, maxReplicas: 40, at: 6h, for: 2h}
- scale: {replicas: 10, at: 4h, every: 1d}
- rollout: {at: 8h, every: 1d}
- outage: {api: [resource, custom], at: 9h, for: 10m, every: 1h}
- lose: {share: 30%, at: 14h, every: 7d}
"""


def test_every_key_means_what_the_page_says() -> None:
    scenario = parse_scenario(FULL)
    assert scenario.description == "every key"
    assert [step.action for step in scenario.steps] == [
        Growth(1400, Moment(6 * H), 30 * M),
        Shift(-3 * H),
        Spike(Times((Moment(12 * H),), 24 * H), 20 * M, 3000, 2 * M),
        Repeat(WEEK_MS, NOON, Moment(24 * H)),
        Overlay("shop/web", ".", 500, Moment(6 * H)),
        SetBounds(3, 40, Moment(6 * H), 2 * H),
        Scale(Times((Moment(4 * H),), 24 * H), 10),
        Rollout(Times((Moment(8 * H),), 24 * H)),
        Outage(Times((Moment(9 * H),), H), 10 * M, ("resource", "custom")),
        Lose(Times((Moment(14 * H),), WEEK_MS), 300),
    ]
    first = scenario.steps[0]
    assert first.selector.hpas == ("shop/*", "prod/batch/etl")
    assert first.selector.where == "max_replicas > 5"
    assert first.signals == ("resource/cpu", "external/*")
    assert first.place == "scenario, line 4: steps[0].growth"
    assert first.selector.place == "scenario, line 6: steps[0].where"


def test_short_forms() -> None:
    scenario = parse_scenario(
        """
- growth: 2
- shift: 1d
- repeat: 36h
- overlay: a/b/c
- rollout: [1h, 2026-10-07T12:00:00Z]
- set: {maxReplicas: 7}
- outage: {api: external, at: 0, for: 1m}
- lose: {share: 0.125, at: 0s}
"""
    )
    assert [step.action for step in scenario.steps] == [
        Growth(2000),
        Shift(24 * H),
        Repeat(36 * H),
        Overlay("a/b/c"),
        Rollout(Times((Moment(H), NOON))),
        SetBounds(max_replicas=7),
        Outage(Times((Moment(0),)), M, ("external",)),
        Lose(Times((Moment(0),)), 125),
    ]
    assert scenario.description == ""


def test_a_growth_option_is_a_scenario_of_one_step() -> None:
    given, written = parse_growth(" 1.4"), parse_scenario("- growth: 1.4")
    assert given.steps == written.steps
    assert given.description == "--growth 1.4"
    for wrong in ("", "x", "-1", "1.23456", "1001", "true", "1,4"):
        with pytest.raises(UsageError, match=r"^--growth: .*(a number from 0 to 1000|decimals)"):
            parse_growth(wrong)


def test_the_full_file_gives_every_key() -> None:
    assert given_keys(yaml.safe_load(FULL)) >= {name for _, name in keys_of(SCENARIO)}


def test_every_mutation_is_fine_or_refused_by_its_key() -> None:
    full = yaml.safe_load(FULL)
    refused = sum(check_mutations(parse_scenario, [step], set()) for step in full["steps"])
    assert refused > 1000
    assert check_mutations(parse_scenario, full | {"steps": [{"growth": 1}]}, set()) > 50


@pytest.mark.parametrize("name", ["peak.yaml", "outage.yaml", "rollout.yaml"])
def test_the_examples_are_fine(name: str) -> None:
    scenario = read_scenario(DATA / name)
    assert scenario.steps
    assert all(step.place.startswith(f"scenario {DATA / name}, line ") for step in scenario.steps)


SENTENCES = {
    "- growth: 1.4x": "line 1: steps[0].growth: '1.4x' is not a number from 0 to 1000 of at most "
    "three decimals, such as 1.4",
    "- growth: 1.2345": "steps[0].growth: 1.2345 has more than three decimals",
    "- grwoth: 1": "steps[0].grwoth: unknown key; did you mean growth? (known here: hpa, where, "
    "signals, growth, ",
    "- growth: 1\n  growth: 2": "line 2: the key 'growth' stands twice, first in line 1; keep one",
    "- growth: 1\n  shift: 1h": "line 2: steps[0].shift: the step has another action, growth; "
    "begin a new step for shift",
    "- hpa: a/b": "steps[0]: a step without an action; one of growth, shift, ",
    "growth: 1": "the steps are no list; begin each with a dash: - growth: …",
    "5": "5 is not a scenario: a list of steps, each after a dash",
    "": "holds 0 documents; one is wanted",
    "- growth: 1\n---\n- growth: 2": "holds 2 documents; one is wanted",
    "[]": "steps: a list of 0 items; from 1 to 10000 are possible",
    "- spike: {at: 1h, for: 20, factor: 2}": "steps[0].spike.for: 20 is not a duration: whole "
    "numbers with w, d, h, m, s or ms, such as 15s, 2h30m or 1d",
    "- spike: {at: 1h, for: -20m, factor: 2}": "steps[0].spike.for: '-20m' is negative; wanted: ",
    "- spike: {at: 1h, for: 10ms, factor: 2}": "steps[0].spike.for: '10ms' is too short: at least ",
    "- spike: {at: 1h, for: 20m, factor: 2, ramp: 11m}": "steps[0].spike.ramp: twice 11m, up and "
    "down, is longer than `for`, which is 20m",
    "- spike: {at: 1h, for: 20m, factor: 2, every: 10m}": "steps[0].spike.every: 10m is shorter "
    "than `for`, which is 20m",
    "- spike: {at: 1h, for: 20m}": "steps[0].spike: the key factor is missing: a number from 0 ",
    "- rollout: {at: [1h, 2h], every: 1d}": "steps[0].rollout.every: it goes with one time only; "
    "`at` lists 2",
    "- rollout: -1h": "steps[0].rollout: '-1h' is before the run starts; wanted: a time: a ",
    "- rollout: 2026-10-07T12:00:00": "steps[0].rollout: '2026-10-07T12:00:00' has no zone: write ",
    "- rollout: noon": "steps[0].rollout: 'noon' is not a duration: whole numbers with w, d, h, m,",
    "- shift: 0s": "steps[0].shift: '0s' moves nothing; wanted: a duration such as 3h (later) or ",
    "- repeat: weekly": "steps[0].repeat: 'weekly' is not week, day, or a duration of at least 1m "
    "such as 12h; did you mean week?",
    "- repeat: 30s": "steps[0].repeat: '30s' is too short: at least 1m",
    "- set: {at: 1h}": "steps[0].set: neither minReplicas nor maxReplicas is given; give one or ",
    "- set: {min_replicas: 1}": "steps[0].set.min_replicas: unknown key; did you mean minReplicas?",
    "- set: {minReplicas: 9, maxReplicas: 5}": "steps[0].set.minReplicas: 9 is above maxReplicas, "
    "which is 5",
    "- set: {maxReplicas: 0}": "steps[0].set.maxReplicas: 0 is not a whole number from 1 to 100,0",
    "- lose: {share: 30, at: 1h}": "steps[0].lose.share: 30 is not a share above 0%, at most 100%",
    "- lose: {share: 0%, at: 1h}": "steps[0].lose.share: '0%' is not a share above 0%, at most 10",
    "- lose: {share: 1.23%, at: 1h}": "steps[0].lose.share: '1.23%' has more than one decimal",
    "- outage: {api: metrics, at: 1h, for: 1h}": "steps[0].outage.api: 'metrics' is not one of "
    "resource, custom, external",
    "- {rollout: 1h, signals: resource/cpu}": "steps[0].signals: it has no meaning with rollout; "
    "it goes with growth, shift, spike, repeat, overlay",
    "- {growth: 1, hpa: web}": "steps[0].hpa: 'web' is not namespace/hpa or cluster/namespace/hpa",
    "- {growth: 1, hpa: 'shop/web,shop/cart'}": "; several go into a list",
    "- {growth: 1, hpa: shop/Web}": "steps[0].hpa: 'shop/Web': a namespace or HPA has lower-case ",
    "- growth: 1\n  hpa: */web": "(line 2, column 9); put a name that begins with * in quotes",
    "- {growth: 1, signals: cpu}": "steps[0].signals: 'cpu' is not the name of a signal, such as ",
    "- {growth: 1, signals: resouce/cpu}": "; did you mean resource?",
    "- overlay: {hpa: shop/*}": "steps[0].overlay.hpa: 'shop/*' is for several; one is wanted",
    "- overlay: {hpa: a/b, history: nowhere}": "steps[0].overlay.history: 'nowhere': there is no "
    "nowhere; name a history as for the run itself, from the folder of this file",
    "- growth: {{ .Values.growth }}": "looks like an unrendered Helm template (line 1:",
    "- growth: [": "not YAML",
}


@pytest.mark.parametrize("text", SENTENCES)
def test_sentences(text: str) -> None:
    found = refusal(parse_scenario, text)
    assert found.startswith("file f.yaml")
    assert SENTENCES[text] in found


def test_lines_are_those_of_the_file() -> None:
    text = (
        "# a\nsteps:\n\n  - growth: 1\n  - spike:\n      at: 1h\n      for: soon\n      factor: 2\n"
    )
    assert refusal(parse_scenario, text).startswith("file f.yaml, line 7: steps[1].spike.for: ")
    merged = "steps:\n- &a\n  growth: {factor: -1}\n- *a\n"
    assert refusal(parse_scenario, merged).startswith("file f.yaml, line 3: steps[0].growth.fact")
    # keys that came by a merge have the line of what they came into
    into = "steps:\n- lose: &a {share: 1%, at: 1h}\n- lose:\n    <<: *a\n    evry: 1\n"
    assert refusal(parse_scenario, into).startswith("file f.yaml, line 5: steps[1].lose.evry: ")
    gone = "steps:\n- lose: &a {at: 1h, evry: 1}\n  x: 1\n- lose:\n    <<: *a\n"
    assert refusal(parse_scenario, gone).startswith("file f.yaml, line 3: steps[0].x: ")


def test_a_history_is_meant_from_the_folder_of_the_file(tmp_path: Path) -> None:
    (tmp_path / "other").mkdir()
    file = tmp_path / "scenario.yaml"
    file.write_text("- overlay: {hpa: a/b, history: other}\n- overlay: {hpa: a/b, history: s3://x}")
    first, second = (step.action for step in read_scenario(file).steps)
    assert first == Overlay("a/b", str(tmp_path / "other"))
    assert second == Overlay("a/b", "s3://x")


def test_json_is_read_too() -> None:
    assert parse_scenario('[{"growth": 1.5}]') == parse_scenario("- growth: 1.5")
    # read by the JSON parser, which knows no lines, because YAML refuses half a surrogate pair
    odd = r'[{"growth": 1, "where": "\ud83d\ude00"}, {"growth": "\ud83d\ude00"}]'
    with pytest.raises(UsageError, match=r"^scenario: steps\[1\]\.growth: '😀' is not a number"):
        parse_scenario(odd)


@pytest.mark.parametrize("content", [b"\xff\xfe", b"x" * (4 * 2**20 + 1)])
def test_a_file_that_cannot_be_read(tmp_path: Path, content: bytes) -> None:
    file = tmp_path / "s.yaml"
    file.write_bytes(content)
    with pytest.raises(UsageError, match=r"^scenario .*s\.yaml .*name another file$"):
        read_scenario(file)
    with pytest.raises(UsageError, match="cannot be read: No such file or directory"):
        read_scenario(tmp_path / "none.yaml")
    with pytest.raises(UsageError, match="cannot be read: Is a directory"):
        read_scenario(tmp_path)


@given(st.text(max_size=60))
def test_no_text_gives_a_traceback(text: str) -> None:
    complaint(parse_scenario, text)


ATOMS = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.floats(),
    st.text(max_size=8),
    st.sampled_from(["1h", "-1h", "30%", "resource", "shop/web", "2026-10-07T12:00:00Z", "week"]),
)
NAMES = st.sampled_from(sorted({name for _, name in keys_of(SCENARIO)} | {"x"}))


@given(
    st.recursive(
        ATOMS,
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAMES, inner, max_size=4),
        max_leaves=12,
    )
)
def test_no_document_gives_a_traceback(document: object) -> None:
    complaint(parse_scenario, yaml.safe_dump(document, allow_unicode=True) or "x")
