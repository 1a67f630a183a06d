"""Policy files: what they mean, and the sentence about everything that they cannot mean."""

from __future__ import annotations

from pathlib import Path
from textwrap import indent

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from hpabatch.errors import UsageError
from hpabatch.inputs.policies import DIRECTION, POLICY, SET, all_policy_sets, read_policy_sets
from hpabatch.model.objects.defaults import DEFAULT_SCALE_UP
from hpabatch.model.objects.hpa import ScalingPolicy, ScalingRules
from hpabatch.model.settings.policy_sets import SHIPPED, PolicySet
from tests.importers.mutations import check_mutations, complaint, given_keys, keys_of, refusal, says
from tests.inputs.parsed import parse_policy_sets

FULL = """
slow.and-steady:
  scaleUp:
    selectPolicy: Min
    policies:
    - {type: Pods, value: 2, periodSeconds: 60}
    - {type: Percent, value: 50, periodSeconds: 1800}
  scaleDown:
    policies: [{type: Percent, value: 5, periodSeconds: 120}]
hold:
  scaleDown: {selectPolicy: Disabled}
"""


def test_every_key_means_what_the_page_says() -> None:
    steady, hold = parse_policy_sets(FULL).values()
    assert steady == PolicySet(
        "slow.and-steady",
        ScalingRules(
            None, "Min", (ScalingPolicy("Pods", 2, 60), ScalingPolicy("Percent", 50, 1800))
        ),
        ScalingRules(None, "Max", (ScalingPolicy("Percent", 5, 120),)),
    )
    default = ScalingRules(None, "Disabled", (ScalingPolicy("Percent", 100, 15),))
    assert hold == PolicySet("hold", None, default)
    (up,) = parse_policy_sets("{a: {scaleUp: {selectPolicy: Min}}}").values()
    assert up.scale_up == ScalingRules(None, "Min", DEFAULT_SCALE_UP.policies)


def test_the_full_file_gives_every_key() -> None:
    known = {name for shape in (SET, DIRECTION, POLICY) for _, name in keys_of(shape)}
    assert given_keys(yaml.safe_load(FULL)) >= known


def _parse_one(text: str, source: str) -> object:
    """Parse a set; what its name may be is tested below."""
    return parse_policy_sets("own:\n" + indent(text, "  "), source)


def test_every_mutation_is_fine_or_refused_by_its_key() -> None:
    document = yaml.safe_load(FULL)["slow.and-steady"]
    assert check_mutations(_parse_one, document, set()) > 250


def test_sets_of_a_file_go_beside_the_shipped_ones(tmp_path: Path) -> None:
    path = tmp_path / "sets.yaml"
    path.write_text(FULL)
    own = read_policy_sets(path)
    assert list(own) == ["slow.and-steady", "hold"]
    assert list(all_policy_sets(own)) == [*SHIPPED, *own]
    with pytest.raises(UsageError, match=r"policy file .*none.yaml cannot be read: No such file"):
        read_policy_sets(tmp_path / "none.yaml")


_ONE = "{a: {scaleUp: {policies: [{type: Pods,"
SENTENCES = {
    "": "file f.yaml: expected one document, got 0",
    "{}": "expected a mapping of names to policy sets, got an empty mapping",
    "[]": "expected a mapping of names to policy sets, got an empty list",
    "{fast: {scaleUp: {selectPolicy: Max}}}":
     "fast: expected another name of a policy set, got fast, which comes with hpabatch",
    "{today: {scaleUp: {selectPolicy: Max}}}":
     "today: expected another name of a policy set, got today, which means today's pol",
    "{a b: {scaleUp: {selectPolicy: Max}}}":
     "a b: expected a policy set's name of up to 63 lower-case letters, digits, - . _,",
    "{'x2,y': {scaleUp: {selectPolicy: Max}}}":
     "x2,y: expected a policy set's name of up to 63 lower-case letters, digits, - . _",
    "{a: }": "a: expected a mapping with the keys scaleUp, scaleDown, got nothing",
    "{a: {}}": "a: expected one or more of scaleUp, scaleDown, got an empty mapping",
    "{a: {scaleUp: {}}}": "a.scaleUp: expected one or more of selectPolicy, policies, got an empty",
    "{a: {scaleup: {selectPolicy: Max}}}": "; did you mean scaleUp?",
    "{a: {scaleUp: {policies: []}}}": "a.scaleUp.policies: expected from 1 to 100 items, got 0",
    "{a: {scaleUp: {policies: 3}}}": "a.scaleUp.policies: expected a list of policies, each after ",
    "{a: {scaleUp: {stabilizationWindowSeconds: 3}}}":
     "a.scaleUp.stabilizationWindowSeconds: expected one of selectPolicy, policies, go",
    "{a: {scaleUp: {selectPolicy: max}}}":
     "a.scaleUp.selectPolicy: expected one of Max, Min, Disabled, got 'max'",
    f"{_ONE} value: 0, periodSeconds: 5}}]}}}}}}":
     "a.scaleUp.policies[0].value: expected a whole number from 1 to 2,147,483,647, go",
    f"{_ONE} value: 1, periodSeconds: 1801}}]}}}}}}":
     "a.scaleUp.policies[0].periodSeconds: expected a whole number from 1 to 1,800, go",
    f"{_ONE} value: 1}}]}}}}}}": "a.scaleUp.policies[0].periodSeconds: expected a whole number from 1",
}  # fmt: skip


@pytest.mark.parametrize("text", SENTENCES)
def test_sentences(text: str) -> None:
    found = refusal(parse_policy_sets, text)
    assert "file f.yaml" in found
    assert says(found, SENTENCES[text])


@given(st.text(max_size=60))
def test_no_text_gives_a_traceback(text: str) -> None:
    complaint(parse_policy_sets, text)
