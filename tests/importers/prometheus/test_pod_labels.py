"""Keys of labels, as far as the exported names tell them."""

from __future__ import annotations

import re

import pytest

from hpabatch.importers.prometheus.client.samples import Findings, empty_samples
from hpabatch.importers.prometheus.pods.lives import _KEYS, label_key, label_texts
from tests.importers.prometheus.ksm import facts, pod


def exported(key: str) -> str:
    """Return the name that kube-state-metrics gives a label."""
    plain = re.sub(r"[^a-zA-Z0-9_]", "_", key)
    return re.sub(r"([a-z0-9])([A-Z])", r"\1_\2", plain).lower()


@pytest.mark.parametrize("key", [*_KEYS.values(), "app", "tier", "version2"])
def test_clear_names_lead_back_to_their_keys(key: str) -> None:
    assert label_key(exported(key)) == key


@pytest.mark.parametrize("key", ["team-name", "team.io/name", "team_name", "teamName", "a-b_c"])
def test_other_names_do_not(key: str) -> None:
    assert label_key(exported(key)) is None


def test_left_out_labels_are_counted() -> None:
    findings = Findings()
    series = [
        (pod("a", "u1", label_app="x", label_team_name="y"), 1.0),
        (pod("b", "u2", label_team_name="z", label_app_conflict1="w"), 1.0),
    ]
    found = label_texts(facts(series), findings)
    assert found["labels"].to_list() == ['{"app":"x"}', "{}"]
    assert sorted(findings.counts.values()) == [1, 2]
    assert label_texts(empty_samples(), findings).is_empty()
