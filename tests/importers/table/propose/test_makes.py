"""Tables of different make: the proposed map imports, and gives back the usage that was put in."""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest
import yaml

from hpabatch.importers.table.propose.run import propose_map
from tests.importers.table.propose.makes import MAKES, MINUTES, PODS, Make, at, cpu, size, total
from tests.importers.tables import import_table, read_tables


def usage(make: Make) -> dict[tuple[str, str, int], int]:
    """Return the millicores that an import must find: by target, pod (if known) and minute."""
    minutes = range(make.first, MINUTES)
    if make.level == "pod":
        return {(owner, pod, m): cpu(pod, m) for pod, owner in PODS.items() for m in minutes}
    return {(name, "", m): total(name, m) for name in set(PODS.values()) for m in minutes}


@pytest.mark.parametrize("make", MAKES, ids=lambda make: make.name)
def test_the_proposed_map_gives_back_what_was_put_in(tmp_path: Path, make: Make) -> None:
    source = tmp_path / make.file
    source.write_text(make.text)
    found = propose_map([str(source)])
    for part in make.expected:
        assert part in found.text, found.text
    assert yaml.safe_load(found.text)["level"] == make.level
    assert found.text.count("# assumed: ") == len(found.assumed)
    text = found.text
    if make.edit is not None:
        assert make.edit[0] in text
        text = text.replace(*make.edit)
    (tmp_path / "map.yaml").write_text(text)
    result = import_table([str(source)], tmp_path / "map.yaml", tmp_path / "h")
    tables = read_tables(tmp_path / "h")
    samples = tables["pod_metrics"].with_columns(pl.col("ts").dt.epoch("s"))
    minute = ((pl.col("ts") - int(at(0).timestamp())) // 60).alias("minute")
    pod = pl.col("pod") if make.level == "pod" else pl.lit("")
    rows = samples.group_by("target", pod.alias("pod"), minute).agg(pl.col("cpu_milli").sum())
    got = {(target, name, m): value for target, name, m, value in rows.rows()}
    wanted = usage(make)
    if make.level == "pod":
        assert got == wanted
    else:  # a sum is shared by the pods, each rounded up; new pods have samples when they are ready
        assert got.keys() == wanted.keys()
        assert all(abs(got[key] - value) <= 2 for key, value in wanted.items())
    assert samples["namespace"].unique().to_list() == [make.namespace]
    assert sorted(result.workloads["hpa"]) == sorted(set(PODS.values()))
    if make.level == "pod":
        kinds = dict(result.workloads.select("target", "kind").rows())
        assert kinds == {"cart": "Deployment", "web-frontend": "Deployment", "db": "StatefulSet"}
    assert (tables["pod_requests"]["cpu_milli"] > 0).all()
    for name, owner_size in ((name, size(name)) for name in set(PODS.values())):
        last = tables["scales"].filter(pl.col("target") == name).sort("ts")["spec_replicas"][-1]
        assert last == owner_size
