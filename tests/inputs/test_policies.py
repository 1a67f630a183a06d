"""Policy files: what they mean, and the sentence about everything that they cannot mean."""

from __future__ import annotations

from pathlib import Path
from textwrap import indent

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from hpabatch.errors import UsageError
from hpabatch.inputs.policies import (
    DIRECTION,
    POLICY,
    SET,
    all_policy_sets,
    parse_policy_sets,
    read_policy_sets,
)
from hpabatch.model.objects.defaults import DEFAULT_SCALE_UP
from hpabatch.model.objects.hpa import ScalingPolicy, ScalingRules
from hpabatch.model.settings.policy_sets import SHIPPED, PolicySet
from tests.importers.mutations import check_mutations, complaint, given_keys, keys_of, refusal

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
    "": "holds 0 documents; one is wanted",
    "{}": "an empty mapping is not a mapping of names to policy sets",
    "[]": "a list is not a mapping of names to policy sets",
    "{fast: {scaleUp: {selectPolicy: Max}}}": "fast: fast comes with hpabatch; give the set anoth",
    "{today: {scaleUp: {selectPolicy: Max}}}": "today: today means what there is today; give the",
    "{a b: {scaleUp: {selectPolicy: Max}}}": "a b: 'a b' is not the name of a policy set: up to 63",
    "{'x2,y': {scaleUp: {selectPolicy: Max}}}": "'x2,y' is not the name of a policy set",
    "{a: }": "a: nothing is given; wanted: a mapping with the keys scaleUp, scaleDown",
    "{a: {}}": "a: nothing is given; give scaleUp, scaleDown or both",
    "{a: {scaleUp: {}}}": "a.scaleUp: nothing is given; give one or more of selectPolicy, policies",
    "{a: {scaleup: {selectPolicy: Max}}}": "a.scaleup: unknown key; did you mean scaleUp? (known",
    "{a: {scaleUp: {policies: []}}}": "a.scaleUp.policies: a list of 0 items; from 1 to 100",
    "{a: {scaleUp: {policies: 3}}}": "a.scaleUp.policies: 3 is not a list of policies",
    "{a: {scaleUp: {stabilizationWindowSeconds: 3}}}": "a.scaleUp.stabilizationWindowSeconds: unkn",
    "{a: {scaleUp: {selectPolicy: max}}}": "a.scaleUp.selectPolicy: 'max' is not one of Max, Min",
    f"{_ONE} value: 0, periodSeconds: 5}}]}}}}}}": "a.scaleUp.policies[0].value: 0 is not a whole",
    f"{_ONE} value: 1, periodSeconds: 1801}}]}}}}}}": "periodSeconds: 1801 is not a whole numb",
    f"{_ONE} value: 1}}]}}}}}}": "a.scaleUp.policies[0]: the key periodSeconds is missing",
}  # fmt: skip


@pytest.mark.parametrize("text", SENTENCES)
def test_sentences(text: str) -> None:
    found = refusal(parse_policy_sets, text)
    assert found.startswith("file f.yaml")
    assert SENTENCES[text] in found


@given(st.text(max_size=60))
def test_no_text_gives_a_traceback(text: str) -> None:
    complaint(parse_policy_sets, text)
