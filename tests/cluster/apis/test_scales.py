"""Keys of the scales of targets."""

from __future__ import annotations

import pytest

from hpabatch.cluster.apis.discovery import target_key
from hpabatch.cluster.objects.types import ScaleKey
from hpabatch.model.objects.hpa import CrossVersionObjectReference


@pytest.mark.parametrize(
    ("api_version", "group"),
    [
        ("apps/v1", "apps"),
        ("v1", ""),
        ("", ""),
        ("/", ""),
        ("/v1", ""),
        ("a/", "a"),
        ("a/b/c", "a/b/c"),
    ],
)
def test_target_keys(api_version: str, group: str) -> None:
    found = target_key("shop", CrossVersionObjectReference("Kind", "name", api_version))
    assert found == ScaleKey(group, "Kind", "shop", "name")
