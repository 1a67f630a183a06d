"""Globs of names."""

from __future__ import annotations

import pytest

from hpabatch.inputs.document_kinds import Selector
from hpabatch.model.selection import matches, matches_any


@pytest.mark.parametrize(
    ("glob", "name", "expected"),
    [
        ("shop/web", "shop/web", True),
        ("shop/web", "shop/web2", False),
        ("shop/*", "shop/", True),
        ("*/web", "shop/web", True),
        ("shop/we?", "shop/web", True),
        ("shop/we?", "shop/we", False),
        ("s.op/*", "shop/web", False),
        ("external/depth{queue=a|b}", "external/depth{queue=a|b}", True),
        ("resource/*", "resource/cpu\n", True),
    ],
)
def test_globs(glob: str, name: str, expected: bool) -> None:
    assert matches(glob, name) == expected
    assert matches_any(["nothing", glob], name) == expected


def test_no_star_reaches_into_another_part() -> None:
    selector = Selector(hpas=("sh*p/web",))
    assert selector.takes_name("demo", "shoop", "web")
    assert not selector.takes_name("demo", "sh", "op-web")


def test_a_glob_of_three_parts_names_the_cluster() -> None:
    selector = Selector(hpas=("prod-*/shop/web", "test/a/b"))
    assert selector.takes_name("prod-1", "shop", "web")
    assert selector.takes_name("test", "a", "b")
    assert not selector.takes_name("test", "shop", "web")


def test_no_glob_takes_every_hpa() -> None:
    assert Selector(where="max_replicas > 5").takes_name("a", "b", "c")
