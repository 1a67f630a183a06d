"""Suggestions of the nearest known name."""

from __future__ import annotations

import pytest

from hpabatch.model.suggestions import did_you_mean, near_path, near_paths

KNOWN = ("shop/web", "pay/gateway", "shop/frontend", "web")


@pytest.mark.parametrize(
    ("path", "found"),
    [
        ("shpo/web", "; did you mean shop/web?"),
        ("other/gateway", "; did you mean pay/gateway?"),  # the same name elsewhere
        ("shop/frontnd", "; did you mean shop/frontend?"),
        ("wbe", "; did you mean web?"),
        ("a/b/c", ""),  # no path has as many parts
    ],
)
def test_the_same_name_elsewhere_is_nearer_than_another_one(path: str, found: str) -> None:
    assert near_path(path, KNOWN) == found


def test_paths_of_one_name_are_all_near_to_it() -> None:
    assert near_paths("wbe", KNOWN, 5) == ["shop/web", "web"]
    assert near_paths("gatewy", KNOWN, 5) == ["pay/gateway"]
    assert near_paths("wbe", KNOWN, 1) == ["shop/web"]
    assert did_you_mean("web" * 100, KNOWN) == ""
    assert near_paths("web" * 100, KNOWN, 5) == []  # (a comparison of long texts takes long)
