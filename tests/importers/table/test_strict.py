"""Entries of a map that match nothing, unknown keys, and requests that an HPA needs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from hpabatch.errors import UsageError
from tests.importers.cluster_made import spec_of, workload, write_objects
from tests.importers.tables import BEGIN_S, POD_MAP, WORKLOAD_MAP, merged, run_import, write_map

TEMPLATE = {"hpas": {"template": {"max": 5, "cpu": "50%"}}}


def rows(*workloads: str) -> str:
    lines = [f"{BEGIN_S},{name},{name}-1,0.1,1" for name in workloads]
    return "\n".join(["ts,app,pod,cpu,mem", *lines]) + "\n"


DATA = rows("web-frontend", "cart")


def listed(**entries: Any) -> dict[str, Any]:
    return {"requests": {"cpu": {"workloads": entries}}}


NEAR: list[tuple[dict[str, Any], str]] = [
    (listed(**{"web-front": "1"}), "a workload of the table, got 'web-front' (map"),
    (listed(**{"shop/web-front": "1"}), "requests.cpu.workloads); did you mean shop/web-frontend?"),
    (listed(**{"mail/cart": "1"}), "did you mean shop/cart?"),
    (listed(**{"shop/cart/ap": "1"}), "did you mean shop/cart/app?"),
    ({"limits": {"memory": {"workloads": {"carts": "1Gi"}}}}, "limits.memory.workloads); did you"),
    (
        merged(TEMPLATE, {"hpas": {"workloads": {"web-fronted": {"max": 2}}}}),
        "hpas.workloads); did",
    ),
]


@pytest.mark.parametrize(("said", "told"), NEAR)
def test_an_entry_that_matches_nearly_is_refused_before_anything_is_written(
    tmp_path: Path, said: dict[str, Any], told: str
) -> None:
    with pytest.raises(UsageError) as error:
        run_import(tmp_path, merged(POD_MAP, said), DATA)
    assert told in str(error.value)
    assert not (tmp_path / "history" / "data").exists()
    # It may be right, and have no data in this table.
    result, _ = run_import(tmp_path, merged(POD_MAP, {**said, "partial": True}), DATA)
    assert any("no such workload here" in text for text in result.warnings)


def test_all_of_them_are_told_at_once(tmp_path: Path) -> None:
    said = listed(**{"web-front": "1", "crat": "1"})
    with pytest.raises(UsageError, match="there are 2 mistakes"):
        run_import(tmp_path, merged(POD_MAP, said), DATA)


def test_an_entry_in_one_section_leaves_the_name_free_in_another(tmp_path: Path) -> None:
    """`chekout` loses its request, though `hpas` names it rightly."""
    said = {
        **listed(cart="1", **{"web-fronted": "1"}),
        "hpas": {"workloads": {"web-frontend": {"max": 5, "cpu": "50%"}}},
    }
    with pytest.raises(UsageError, match="did you mean web-frontend"):
        run_import(tmp_path, merged(POD_MAP, said), DATA)


def test_entries_that_are_absent_today_are_one_warning(tmp_path: Path) -> None:
    # worker-a and worker-b have entries of their own, and one of them no data.
    said = listed(**{"worker-a": "200m", "worker-b": "200m", "billing": "200m"})
    result, _ = run_import(tmp_path, merged(POD_MAP, said), rows("worker-a"))
    told = "2 entries of the map match nothing here, first requests.cpu.workloads.worker-b"
    assert result.warnings == (told,)


def test_what_the_objects_know_is_right(tmp_path: Path) -> None:
    items = [workload(name, 1, spec_of()) for name in ("web-frontend", "web-front")]
    objects = write_objects(tmp_path, items)
    said = listed(**{"web-front": "1", "shop/web-front/proxy": "1"})
    result, _ = run_import(tmp_path, merged(POD_MAP, said), DATA, objects=[objects])
    assert not any("match nothing" in text or "no such" in text for text in result.warnings)


def test_a_workload_map_knows_its_one_container(tmp_path: Path) -> None:
    data = f"ts,app,size,cpu\n{BEGIN_S},cart,2,10\n"
    fine = merged(WORKLOAD_MAP, listed(**{"shop/cart/app": "200m"}))
    result, _ = run_import(tmp_path, fine, data)
    assert result.warnings == ()
    with pytest.raises(UsageError, match="did you mean shop/cart/app"):
        run_import(tmp_path, merged(WORKLOAD_MAP, listed(**{"shop/cart/app1": "1"})), data)


KEYS: list[tuple[dict[str, Any], str, str]] = [
    ({"columns": {"cpu": None, "memory": None, "cpus": "cpu"}}, "columns.cpus", "cpu"),
    ({"columns": {"pod": None, "pods": "pod"}}, "columns.pods", "pod"),
    ({"level": None, "levle": "pod"}, "levle", "level"),
]


@pytest.mark.parametrize(("change", "path", "meant"), KEYS)
def test_an_unknown_key_is_told_as_such_and_not_as_a_missing_one(
    tmp_path: Path, change: dict[str, Any], path: str, meant: str
) -> None:
    from hpabatch.importers.table.decode import read_map

    with pytest.raises(UsageError) as error:
        read_map(write_map(tmp_path, merged(POD_MAP, change)))
    text = str(error.value)
    assert f": {path}); did you mean {meant}?" in text
    assert "mistakes" not in text
    assert "got nothing" not in text


def test_workloads_without_a_request_under_a_utilization_target_are_named_once(
    tmp_path: Path,
) -> None:
    bare = merged(POD_MAP, {"limits": None, **TEMPLATE})
    names = [f"app-{k}" for k in range(5)]
    result, _ = run_import(tmp_path, bare, rows(*names))
    assert result.warnings == (
        "5 workloads have no cpu request under a utilization target, so the HPA cannot decide by "
        "it (shop/app-0/app, shop/app-1/app, shop/app-2/app, …): say requests.cpu in the map, or "
        "give the cluster's objects with --objects",
    )
    (tmp_path / "two").mkdir()
    amount = merged(bare, {"hpas": {"template": {"cpu": "100m"}}})
    assert run_import(tmp_path / "two", amount, rows(*names))[0].warnings == ()
