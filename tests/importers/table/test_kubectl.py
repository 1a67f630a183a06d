"""Import of the text that kubectl prints of HPAs."""

from __future__ import annotations

from pathlib import Path

import pytest

from hpabatch.api.statuses import explain
from hpabatch.engine.explain.request import ExplainRequest
from hpabatch.errors import UsageError
from hpabatch.history.reader import open_history
from hpabatch.importers.table.propose.run import propose
from tests.importers.tables import import_table, write_csv

GET = """\
NAMESPACE   NAME   REFERENCE        TARGETS              MINPODS   MAXPODS   REPLICAS   AGE
shop        cart   Deployment/cart  cpu: 81%/80%         1         3         1          40m
shop        cart   Deployment/cart  cpu: 95%/80%         1         3         1          41m
shop        web    Deployment/web   cpu: <unknown>/50%   2         9         2          3d
"""


def test_what_kubectl_prints_of_an_hpa_explains_its_decision(tmp_path: Path) -> None:
    source, place = write_csv(tmp_path, GET, "hpa.txt"), tmp_path / "map.yaml"
    propose([source], str(place), start="2026-10-07T12:00:00Z")
    import_table([source], place, tmp_path / "history")
    found = explain(open_history(tmp_path / "history"), ExplainRequest(name="cart")).text
    assert "goes from 1 to 2 replicas: cpu is at 95% of the requests (target 80%)" in found


FAILED = """\
NAME    REFERENCE        TARGETS                         MINPODS   MAXPODS   REPLICAS   AGE
my-hpa  Deployment/cart  <unknown>/500m (avg), 20%/80%   2         5         3          16d
"""
PARTS = [
    (FAILED, "stays at 3 replicas: 1 of its 2 metrics failed"),
    (FAILED.replace("20%/80%", "120%/80%"), "goes from 3 to 5 replicas"),
    (
        FAILED.replace("<unknown>/500m (avg), 20%/80%", "1% / 25%"),
        "(target 25%), which asks for 1 replica",
    ),
    (FAILED.replace("<unknown>/500m (avg), 20%/80%", "0%/50%, 90%/50%"), "goes from 3 to 5 rep"),
]


@pytest.mark.parametrize(
    ("text", "decision"),
    PARTS,
    ids=["down", "up", "one_percent", "two"],
)
def test_a_metric_without_a_value_keeps_the_hpa_from_shrinking(
    tmp_path: Path, text: str, decision: str
) -> None:
    source, place = write_csv(tmp_path, text, "hpa.txt"), tmp_path / "map.yaml"
    propose([source], str(place), start="2026-10-07T12:00:00Z")
    import_table([source], place, tmp_path / "history")
    found = explain(open_history(tmp_path / "history"), ExplainRequest(name="cart")).text
    assert decision in found


def test_what_kubectl_could_not_tell_is_named(tmp_path: Path) -> None:
    text = FAILED.replace("20%/80%", "1500m/1")
    with pytest.raises(UsageError, match="a percentage with a value, got none beside <unk"):
        propose([write_csv(tmp_path, text, "hpa.txt")], None, start="2026-10-07T12:00:00Z")


def test_each_hpa_of_kubectl_get_has_its_own_settings(tmp_path: Path) -> None:
    source, place = write_csv(tmp_path, GET, "hpa.txt"), tmp_path / "map.yaml"
    text = propose([source], str(place), start="2026-10-07T12:00:00Z").text
    assert "web: {min: 2, max: 9, cpu: 50%}" in text
