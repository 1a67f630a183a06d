"""Objects of a cluster beside a server: HPAs, requests that are not exported, disagreements."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import polars as pl
import yaml

from hpabatch.history.columns import TIME
from hpabatch.importers.common.objects import PodRequests
from hpabatch.importers.prometheus.client.samples import Findings
from hpabatch.importers.prometheus.pods.states import REQUESTS, beside_objects, note_lacking
from hpabatch.importers.prometheus.reading.window import WindowImport
from hpabatch.importers.prometheus.request import PrometheusRequest
from hpabatch.importers.prometheus.site import Beside, read_beside
from hpabatch.importers.prometheus.specs.specs import OBJECTS, spec_rows
from hpabatch.inputs.cluster_objects import read_objects
from hpabatch.model.objects.encode import spec_to_json
from hpabatch.model.objects.hpa import HPA
from tests.importers.cluster_made import (
    HASH,
    START_MS,
    budget,
    pod,
    replica_set,
    spec_of,
    stamp,
    workload,
    write_objects,
)
from tests.importers.cluster_made import hpa as hpa_object
from tests.importers.prometheus import ksm_hpas as ksm

POD = f"web-{HASH}-ccccc"


def pods(*uids: str) -> pl.DataFrame:
    rows = [("shop", "web", uid, "Deployment", START_MS) for uid in uids]
    columns = ["namespace", "target", "uid", "target_kind", "created"]
    return pl.DataFrame(rows, schema=columns, orient="row")


def requests_in(tmp_path: Path) -> PodRequests:
    spec = spec_of()
    own = pod(POD, f"ReplicaSet/web-{HASH}", spec_of("300m"), START_MS)
    items = [workload("web", 2, spec), replica_set("web", spec), own]
    return PodRequests(read_objects([write_objects(tmp_path, items)]))


def exported(*containers: tuple[str, str, int | None]) -> pl.DataFrame:
    """Return the rows of containers that a server has, with their cpu request."""
    rows = [("shop", "web", uid, name, "app", 0, START_MS, cpu, None, None, None)
            for uid, name, cpu in containers]  # fmt: skip
    return pl.DataFrame(rows, schema=REQUESTS, orient="row")


def test_requests_that_a_server_does_not_export_are_the_objects(tmp_path: Path) -> None:
    rows = exported((f"uid-{POD}", "web", None), ("gone", "web", None))
    found = beside_objects(rows, pods(f"uid-{POD}", "gone"), requests_in(tmp_path))
    assert found.schema == REQUESTS
    cpu = {(uid, name): milli for uid, name, milli in found.select("uid", "container", "cpu_milli")
           .rows()}  # fmt: skip
    assert cpu[f"uid-{POD}", "web"] == 300  # resized: the pod's own
    assert cpu["gone", "web"] == 250
    assert cpu["gone", "proxy"] == 100
    assert set(found.filter(pl.col("container") == "log")["kind"]) == {"sidecar"}
    assert found["valid_from"].unique().to_list() == [START_MS]
    findings = Findings()
    note_lacking(found, findings)
    assert not any(findings.counts.values())


def request(**options: Any) -> PrometheusRequest:
    return PrometheusRequest(url="http://x", out="o", **options)


def test_a_manifest_goes_before_an_object(tmp_path: Path) -> None:
    objects = [hpa_object("web", "web", START_MS), hpa_object("db", "db", START_MS), budget("web")]
    manifest = tmp_path / "hpa.yaml"
    manifest.write_text(yaml.safe_dump(hpa_object("web", "web", START_MS, most=4)))
    beside = read_beside(
        request(objects=(write_objects(tmp_path, objects),), hpas=(str(manifest),))
    )
    sizes = {hpa.name: hpa.spec.max_replicas for hpa in beside.hpas}
    assert sizes == {"web": 4, "db": 9}
    assert beside.notes == ()
    assert read_beside(request()).requests is None


def found_specs(since_s: int, created_s: int, begin_s: int = -900, until_s: int = 3600) -> Any:
    """Return the specs of an HPA that is exported since a time, and whose object has another."""
    times, span = ksm.scrapes(-600, 3600), ksm.span(0, until_s)
    series = ksm.series_of({"web": [(begin_s, None), (since_s, ksm.hpa())]}, times)
    behavior = ksm.spec(behavior={"scaleDown": {"stabilizationWindowSeconds": 60}})
    document = ksm.hpa(
        behavior, uid="real", generation=2, labels=(("team", "shop"),),
        creation_timestamp=stamp(1000 * (ksm.START + created_s)),
    )  # fmt: skip
    return spec_rows(
        ksm.gauges(series, span), span, ksm.beats(times, span), cluster="east",
        manifests=[document], methods={("shop", "web"): OBJECTS},
    )  # fmt: skip


def test_an_object_of_a_later_life_does_not() -> None:
    found = found_specs(-900, 7200)
    row = found.rows.row(0, named=True)
    assert (row["uid"], row["created"]) == ("hpa-east-shop-Deployment-web", None)
    fresh = found_specs(601, 601).rows.row(0, named=True)
    assert fresh["uid"] == "real"


def test_what_the_objects_say_beside_a_spec_is_kept_while_it_is_new(tmp_path: Path) -> None:
    limits = {"minAvailable": 1, "selector": {"matchLabels": {"app": "web"}}}
    items = [
        workload("web", 2, spec_of()),
        hpa_object("web", "web", START_MS),
        {**budget("web"), "spec": limits},
    ]
    beside = read_beside(request(objects=(write_objects(tmp_path, items),)))
    spec = spec_to_json(HPA(spec=beside.hpas[0].spec))
    rows = pl.DataFrame({"namespace": "shop", "name": "web", "valid_from": [1], "spec": [spec]})

    def found(beside: Beside, until_ms: int, stored: pl.DataFrame | None) -> pl.DataFrame:
        window = SimpleNamespace(initial=False, span=SimpleNamespace(until_ms=until_ms))
        place: Any = SimpleNamespace(
            beside=beside, cluster="east", stored=lambda table: {"hpa_context": stored}[table],
            window=window,
        )  # fmt: skip
        return WindowImport.context(place, rows)

    first = found(beside, START_MS, None)
    (row,) = first.to_dicts()
    assert (row["ts"], row["owner"], row["spreads"]) == (START_MS, None, "[]")
    assert row["budgets"] == '[{"name":"web","minAvailable":"1"}]'
    stored = first.with_columns(pl.col("ts").cast(TIME))
    assert found(beside, START_MS + 1000, stored).is_empty()
    others = read_beside(request(objects=(write_objects(tmp_path, items[:2]),)))
    assert found(others, START_MS + 1000, stored)["budgets"].to_list() == [None]
    assert found(read_beside(request()), START_MS, None).is_empty()
