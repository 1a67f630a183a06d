"""Selections of HPAs by condition, namespace and name."""

from __future__ import annotations

import polars as pl
import pytest

from hpabatch.engine.fleet.candidates import candidate_frame
from hpabatch.engine.fleet.request import ChosenHpas
from hpabatch.engine.fleet.selection import Selection
from hpabatch.errors import UsageError

CANDIDATES = pl.DataFrame(
    {
        "cluster": ["eu", "arn:aws:eks:us-east-1:1:cluster/us", "cluster"],
        "namespace": ["shop", "shop", "pay"],
        "hpa": ["cart", "api", "cart"],
        "max_replicas": [5, 10, 20],
        "min_replicas": [1, None, 2],
        "labels": ['{"app":"cart"}', "{}", "{}"],
        "row": [0, 1, 2],
    }
)


@pytest.mark.parametrize(
    ("where", "why"),
    [
        ("namespce = 'shop'", "unknown column 'namespce' at character 1; did you mean namespace?"),
        ("namespace = ", "expected a value, got the end at character 13"),
        ("", "expected a value, got the end at character 1"),
        ("max_replicas", "expected a condition, got a number"),
        ("'shop'", "expected a condition, got a string"),
        ("namespace > 5", "cannot compare a string with a number at character 11"),
        ("namespace = 'shop'; DROP TABLE hpas", "expected one expression, got ';' at character 19"),
    ],
)
def test_what_is_no_condition(where: str, why: str) -> None:
    with pytest.raises(UsageError) as refused:
        Selection(ChosenHpas(where=where))
    message = str(refused.value)
    assert message.startswith(f"--where {where!r}: ")
    assert why in message
    assert "give a condition on cluster, namespace, hpa, target_kind" in message
    assert "\n" not in message


def test_a_condition_that_fails_on_the_data() -> None:
    with pytest.raises(UsageError, match="--where 'CAST\\(hpa AS INT\\) = 1': conversion"):
        Selection(ChosenHpas(where="CAST(hpa AS INT) = 1"))(CANDIDATES)


def test_a_condition_must_leave_something() -> None:
    with pytest.raises(UsageError, match="is true for none of 3 HPAs; widen it"):
        Selection(ChosenHpas(where="namespace = 'none'"))(CANDIDATES)
    none = Selection(ChosenHpas(where="namespace = 'none'"))
    assert none(candidate_frame([])).is_empty()


@pytest.mark.parametrize(
    ("asked", "rows"),
    [
        (ChosenHpas(names=("cart",)), [0, 2]),
        (ChosenHpas(names=("shop/cart",)), [0]),
        (ChosenHpas(names=("arn:aws:eks:us-east-1:1:cluster/us/shop/api", "pay/cart")), [1, 2]),
        (ChosenHpas(namespace=("shop",)), [0, 1]),
        (ChosenHpas(namespace=("pay", "shop"), names=("cart",), where="max_replicas > 5"), [2]),
    ],
)
def test_names_and_namespaces(asked: ChosenHpas, rows: list[int]) -> None:
    chosen = Selection(asked)
    assert chosen(CANDIDATES)["row"].to_list() == rows
    chosen.check(())
    assert CANDIDATES.filter(chosen.condition)["row"].to_list() == rows


@pytest.mark.parametrize(
    ("asked", "told"),
    [
        (ChosenHpas(names=("crt",)), "crt: there is no such HPA; did you mean pay/cart, shop/cart"),
        (ChosenHpas(names=("pay/api",)), "pay/api: there is no such HPA; did you mean "),
        (ChosenHpas(namespace=("shp",)), "-n shp: there is no HPA of that namespace; namespaces: "),
        (ChosenHpas(names=("api",), namespace=("pay",)), "api: not among the HPAs that -n and "),
    ],
)
def test_what_is_not_there(asked: ChosenHpas, told: str) -> None:
    chosen = Selection(asked)
    chosen(CANDIDATES)
    with pytest.raises(UsageError) as refused:
        chosen.check(())
    assert str(refused.value).startswith(told)
