"""Fields of a grid as sides of a heat map, and where today's values are."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import pytest

from hpabatch.errors import UsageError
from hpabatch.model.objects.decode import hpa_from_json
from hpabatch.model.settings.setting import todays_number
from hpabatch.model.versions import ControllerFlags
from hpabatch.report.pictures.data import compare_settings
from hpabatch.report.pictures.grid import Side, parse_fields, sides_of
from tests.report.pictured import swept
from tests.sweeps import SPEC, SweepMaker, Values, weeks

FLAT: Values = weeks([1.0])


def side(values: list[str], field: str, spec: dict[str, Any] | None = None) -> Side:
    """Return the side that some values of a field make."""
    made = SweepMaker([{field: v, "sync": "15s"} for v in values])
    made.add("api", dict.fromkeys(range(len(values) + 1), FLAT), spec=spec)
    result = made.result()
    unit = compare_settings(result, "shop/api", ("pod_hours", "rescales")).unit
    return sides_of(result, unit, (field, "sync"))[0]


def test_values_stand_in_order_and_settings_in_their_cells() -> None:
    found = side(["70", "100", "60", "+5", "x0.8", "today"], "target")
    assert found.names == ("today", "60", "70", "100", "x0.8", "+5")
    assert found.cells.tolist() == [0, 2, 3, 1, 5, 4, 0]
    assert not found.ranged


def test_todays_setting_is_in_no_cell_unless_the_grid_says_today() -> None:
    found = side(["70", "80"], "target")
    assert found.cells.tolist() == [-1, 0, 1]


def test_policies_stand_from_slow_to_quick() -> None:
    found = side(["fast", "own", "gentle", "default"], "scaleUp.policies")
    assert found.names == ("gentle", "default", "fast", "own")


@pytest.mark.parametrize(
    ("field", "values", "today"),
    [
        ("target", ["50", "60", "70"], 1),
        ("target", ["50", "70"], None),
        ("target", ["x0.8", "x1.2"], None),
        ("min", ["1", "2"], 1),
        ("max", ["10", "20"], 0),
        ("scaleDown.window", ["60", "300"], 1),
        ("scaleUp.window", ["0", "60"], 0),
        ("tolerance", ["0.05", "0.1"], 1),
        ("scaleUp.policies", ["default", "fast"], 0),
        ("scaleDown.select", ["Max", "Min"], 0),
        ("scaleDown.select", ["Disabled", "Min"], None),
        ("target.memory", ["50", "60"], None),
    ],
)
def test_todays_value_is_found_also_where_the_spec_leaves_it_open(
    field: str, values: list[str], today: int | None
) -> None:
    assert side(values, field).today == today


def test_what_the_spec_says_counts() -> None:
    behavior = {
        "scaleDown": {"stabilizationWindowSeconds": 60, "tolerance": "50m"},
        "scaleUp": {"policies": [{"type": "Pods", "value": 1, "periodSeconds": 60}]},
    }
    spec = SPEC | {"behavior": behavior}
    assert side(["60", "300"], "scaleDown.window", spec).today == 0
    assert side(["0.05", "0.1"], "scaleDown.tolerance", spec).today == 0
    assert side(["0.05", "0.1"], "tolerance", spec).today is None  # scaleUp has another
    assert side(["default", "fast"], "scaleUp.policies", spec).today is None


def test_numbers_of_quantities() -> None:
    target = {"type": "AverageValue", "averageValue": "500m"}
    metric = {"type": "Resource", "resource": {"name": "cpu", "target": target}}
    spec = SPEC | {"metrics": [metric]}
    assert side(["500m", "600m"], "target", spec).today == 0
    decoded, _ = hpa_from_json(__import__("json").dumps(spec))
    assert todays_number(decoded.spec, "target") == Fraction(1, 2)
    assert todays_number(decoded.spec, "sync") is None
    flags = ControllerFlags(downscale_stabilization_ms=60_000)
    assert todays_number(decoded.spec, "scaleDown.window", flags) == 60


def test_hpas_of_several_specs_have_no_value_in_common() -> None:
    made = SweepMaker([{"target": "60"}, {"target": "70"}])
    other = SPEC | {"minReplicas": 3}
    lots = dict.fromkeys(range(3), FLAT)
    made.add("api", lots, unit="g").add("web", lots, unit="g", spec=other)
    result = made.result()
    unit = compare_settings(result, "g", ("pod_hours", "rescales")).unit
    assert sides_of(result, unit, ("target", "target"))[0].today == 0
    assert todays_number_of_both(result, unit) is None


def todays_number_of_both(result: Any, unit: Any) -> Fraction | None:
    from hpabatch.report.pictures.grid import Todays

    return Todays(result, unit).number("min", "")


def test_many_numbers_become_round_ranges() -> None:
    values = [str(v) for v in range(41, 91)]
    found = side(values, "target")
    assert found.ranged
    assert found.names[0] == "40–45"
    assert found.names[-1] == "85–90"
    cells = dict(zip(values, found.cells.tolist()[1:], strict=True))
    assert (cells["44"], cells["45"], cells["89"], cells["90"]) == (0, 1, 9, 9)
    assert found.today == cells["60"]


def test_many_factors_become_ranges_of_factors() -> None:
    found = side([f"x{k / 20}" for k in range(10, 40) if k != 20], "target")
    assert found.names[0] == "x0.5–0.7" or found.names[0].startswith("x0.")
    assert found.today is not None
    low, high = found.names[found.today].removeprefix("x").split("–")
    assert float(low) <= 1 < float(high)


def test_too_many_words_are_refused() -> None:
    with pytest.raises(UsageError, match="17 values, which are not all numbers"):
        side([f"set{k}" for k in range(17)], "policies")


def test_fields_may_be_spelled_in_other_ways() -> None:
    found = parse_fields(swept(), "averageUtilization, scale-down.window")
    assert found == ("target", "scaleDown.window")
