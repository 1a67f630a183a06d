"""Policy files: what they mean, and the sentence about everything that they cannot mean."""

from __future__ import annotations

from pathlib import Path

from hpabatch.inputs.grid import all_policy_sets, read_policy_sets
from hpabatch.model.objects.defaults import DEFAULT_SCALE_UP
from hpabatch.model.objects.hpa import ScalingPolicy, ScalingRules
from hpabatch.model.settings.fields import SHIPPED, PolicySet
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


def test_sets_of_a_file_go_beside_the_shipped_ones(tmp_path: Path) -> None:
    path = tmp_path / "sets.yaml"
    path.write_text(FULL)
    own = read_policy_sets(path)
    assert list(own) == ["slow.and-steady", "hold"]
    assert list(all_policy_sets(own)) == [*SHIPPED, *own]
