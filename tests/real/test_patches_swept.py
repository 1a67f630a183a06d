"""Answers of a real sweep, applied by kubectl 1.20.2 to a server of 1.20.2.

The demo's HPAs are put into the server, and every one of them is recommended a setting: nothing
that speaks against advice counts here, so that each kind of metric gets its patch.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import polars as pl
import pytest

import hpabatch
from hpabatch.api.sweeps import Sweep, recommend
from hpabatch.engine.advise import run
from hpabatch.engine.advise.answer import CHANGE, KEEP, Answer
from hpabatch.engine.advise.judge import TODAY, Judged, Judging, Standing
from hpabatch.engine.advise.request import RecommendRequest
from hpabatch.engine.advise.run import Recommendation, Recommendations
from hpabatch.engine.advise.specs import Inputs
from hpabatch.inputs.cluster_objects import COMMAND, read_objects
from hpabatch.model.objects.encode import encode_spec
from hpabatch.model.settings.patch import patch_version
from hpabatch.model.versions import profile_for
from hpabatch.report.recommend_files import recommendation_files
from tests.cli.histories import DEMO
from tests.importers.cluster_made import spec_of, workload
from tests.real.cluster import Cluster, missing, running_cluster
from tests.real.kubectl_objects import Json
from tests.real.server_hpas import GATES, as_list, read_item

pytestmark = [
    pytest.mark.skipif(bool(missing()), reason=missing()),
    pytest.mark.compiled,
]
VERSION = patch_version(profile_for("1.20", GATES)).rpartition("/")[2]
GRID = ["target=x0.8,today", "min=+1,today", "max=x1.5,today", "policies=gentle,fast,today",
        "scaleDown.window=600,today"]  # fmt: skip
SEED = 0
HPAS = f"/apis/autoscaling/{VERSION}/horizontalpodautoscalers"
BUDGETS = "/apis/policy/v1beta1/namespaces/shop/poddisruptionbudgets"
Items = dict[tuple[str, str], Json]


@pytest.fixture(scope="module")
def sweep(tmp_path_factory: pytest.TempPathFactory) -> Sweep:
    """Sweep the demo by the rules of 1.20, with few syncs; nothing speaks against its HPAs."""
    out = tmp_path_factory.mktemp("swept") / "sweep"
    found = hpabatch.open(DEMO).sweep(
        grid=GRID, k8s="1.20", feature_gates=GATES, fidelity=False, sync_period="5m", out=out
    )
    sound = {"advice": pl.lit(value=True), "problems": pl.lit(""), "censored_pct": pl.lit(0.0)}
    usable = found.results.with_columns(usable=pl.lit(value=True), why_not=pl.lit(""))
    inside = found.blocks.with_columns(outside_minutes=pl.lit(0.0))
    hpas = found.hpas.with_columns(**sound)
    return replace(found, hpas=hpas, results=usable, blocks=inside)


@pytest.fixture(scope="module")
def cluster(sweep: Sweep, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    flags = f"--feature-gates={GATES}"
    with running_cluster(tmp_path_factory.mktemp("cluster"), flags) as running:
        for namespace in sweep.hpas["namespace"].unique():
            running.kubectl("create", "namespace", namespace)
        yield running


def advise(sweep: Sweep, **options: Any) -> Recommendations:
    """Return any candidate as every HPA's change, so that patches differ in every way there is."""

    def any_of(asked: Judging, _: Standing, blocks: slice) -> int:
        others = np.flatnonzero(asked.inside(blocks)[1:]) + 1
        rng = np.random.default_rng([asked.rules.seed, *asked.unit.name.encode()])
        return int(others[int(rng.integers(others.size))]) if others.size else TODAY

    def anyway(found: Judged, _: Inputs) -> Answer:
        return Answer(CHANGE if found.choice else KEEP, ("any candidate",))

    bounds = ("min=x9", "max=x9")
    request = RecommendRequest(accept="low", bound=bounds, slo=("none",), **options)
    with (
        mock.patch.object(Judging, "choose", any_of),
        mock.patch.object(run, "simplest", lambda found, *_: found.choice),
        mock.patch.object(run, "answer", anyway),
    ):
        return recommend(sweep, request).found


def put_all(cluster: Cluster, sweep: Sweep) -> Items:
    """Put the HPAs of the sweep into the server, as they are today, and return them."""
    for namespace in sweep.hpas["namespace"].unique():
        cluster.kubectl("delete", "hpa", "--all", "-n", namespace)
    documents = [
        {
            "apiVersion": f"autoscaling/{VERSION}",
            "kind": "HorizontalPodAutoscaler",
            "metadata": {"name": name, "namespace": namespace, "annotations": {"team": "demo"}},
            "spec": json.loads(text),
        }
        for namespace, name, text in written(sweep).rows()
    ]
    # A server of 1.20 drops the tolerance that one of them has, and kubectl need not refuse it.
    cluster.kubectl("create", "--validate=false", "-f", "-", stdin=as_list(documents))
    return items_of(cluster)


def written(sweep: Sweep) -> pl.DataFrame:
    """Return the namespace, name and last spec of each HPA, as the demo has them.

    A sweep has them as a server of 1.20 returns them, which is not always what it takes.
    """
    rows = pl.read_parquet(DEMO / "hpas.parquet").sort("valid_from")
    last = rows.unique(["namespace", "name"], keep="last").rename({"name": "hpa"})
    return last.join(sweep.hpas, on=["namespace", "hpa"], how="semi").select(
        "namespace", "hpa", "spec"
    )


def items_of(cluster: Cluster) -> Items:
    items = json.loads(cluster.kubectl("get", "--raw", HPAS))["items"]
    return {(i["metadata"]["namespace"], i["metadata"]["name"]): i for i in items}


def write(files: Mapping[str, str], folder: Path) -> Path:
    folder.mkdir()
    for name, text in files.items():
        (folder / name).write_text(text)
    return folder


def kept(item: Json) -> Json:
    """Return what a patch must leave as it is."""
    names = ("annotations", "labels", "uid", "creationTimestamp")
    return {name: item["metadata"].get(name) for name in names}


def test_every_answers_patch_makes_its_recommended_spec(
    cluster: Cluster, sweep: Sweep, tmp_path: Path
) -> None:
    before = put_all(cluster, sweep)
    found = advise(sweep, seed=SEED)
    folder = write(recommendation_files(found)[0], tmp_path / "patches")
    changed = [item for item in found.items if item.answer == CHANGE]
    assert len(found.items) >= 25
    assert len(changed) > 0.8 * len(found.items)
    for item in changed:
        text = (folder / f"{item.key[1]}.{item.key[2]}.yaml").read_text()
        (command,) = re.findall("^# apply: (kubectl .*)$", text, flags=re.MULTILINE)
        done = cluster.try_shell(command, folder)
        assert (done.returncode, done.stderr) == (0, ""), item.key
    after = items_of(cluster)
    for item in found.items:
        place = item.key[1:]
        assert item.wanted is not None
        assert after[place]["spec"] == encode_spec(item.wanted), place
        assert read_item(after[place], VERSION)[0].spec == item.wanted
        assert kept(after[place]) == kept(before[place])


def test_every_kind_of_metric_and_field_is_among_the_patches(sweep: Sweep) -> None:
    items = advise(sweep, seed=SEED).items
    kinds = {m.type for item in items if "metrics" in item.patch for m in item.today.metrics}
    assert kinds == {"Resource", "ContainerResource", "Pods", "Object", "External"}
    fields = {name for item in items for name in item.patch}
    assert fields == {"minReplicas", "maxReplicas", "metrics", "behavior"}


# ---- what the cluster itself says ---------------------------------------------------------------


def by_name(found: Recommendations) -> dict[tuple[str, ...], Recommendation]:
    return {item.key[1:]: item for item in found.items}


def shown(cluster: Cluster, folder: Path) -> Path:
    """Write what the command that is named in the documentation prints."""
    program, *arguments = COMMAND.split()
    assert program == "kubectl"
    path = folder / "objects.yaml"
    path.write_text(cluster.kubectl(*arguments))
    return path


def test_objects_as_kubectl_prints_them_are_those_that_were_judged(
    cluster: Cluster, sweep: Sweep, tmp_path: Path
) -> None:
    """1.20 prints HPAs as autoscaling/v1, with half of the spec in annotations."""
    put_all(cluster, sweep)
    objects = shown(cluster, tmp_path)
    found = by_name(advise(sweep, objects=(str(objects),)))
    assert len(read_objects([objects]).hpas) == len(found)
    assert not [item.withheld for item in found.values() if item.withheld]


def test_who_edits_and_who_owns_an_hpa_is_known_from_the_cluster(
    cluster: Cluster, sweep: Sweep, tmp_path: Path
) -> None:
    put_all(cluster, sweep)
    edit = json.dumps({"spec": {"maxReplicas": 77}})
    cluster.kubectl("patch", "hpa", "frontend", "-n", "shop", "--type", "merge", "-p", edit)
    owner = {"apiVersion": "keda.sh/v1alpha1", "kind": "ScaledObject", "name": "cart", "uid": "1",
             "controller": True}  # fmt: skip
    owned = json.dumps({"metadata": {"ownerReferences": [owner]}})
    cluster.kubectl("patch", "hpa", "cart", "-n", "shop", "--type", "merge", "-p", owned)
    label = "kustomize.toolkit.fluxcd.io/name=apps"
    cluster.kubectl("label", "hpa", "catalog", "-n", "shop", label)
    found = by_name(advise(sweep, objects=(str(shown(cluster, tmp_path)),)))
    before = by_name(advise(sweep))["shop", "frontend"].today.max_replicas
    frontend = found["shop", "frontend"]
    assert frontend.was_edited
    assert f"maxReplicas {before} -> 77" in frontend.withheld
    told = {place: item.withheld for place, item in found.items() if item.withheld}
    assert set(told) == {("shop", "frontend"), ("shop", "cart"), ("shop", "catalog")}
    assert told["shop", "cart"].startswith("owned by KEDA ScaledObject shop/cart: change spec.")
    assert told["shop", "catalog"].startswith("owned by Flux Kustomization shop/apps: change it")


def test_the_needs_of_pods_are_known_from_the_cluster(
    cluster: Cluster, sweep: Sweep, tmp_path: Path
) -> None:
    put_all(cluster, sweep)
    document = workload("frontend", 3, spec_of())
    spread = {
        "maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": {"matchLabels": {"app": "frontend"}},
    }  # fmt: skip
    template = document["spec"]["template"]["spec"]
    template["topologySpreadConstraints"] = [spread]
    for one in (*template["containers"], *template.pop("initContainers")):
        one["image"] = "none"
    selector = {"matchLabels": {"app": "frontend"}}
    budget = {
        "apiVersion": "policy/v1beta1", "kind": "PodDisruptionBudget",
        "metadata": {"name": "keep", "namespace": "shop"},
        "spec": {"minAvailable": "80%", "selector": selector},
    }  # fmt: skip
    del document["status"], document["metadata"]["uid"]
    cluster.kubectl("create", "-f", "-", stdin=as_list([document, budget]))
    request = RecommendRequest(objects=(str(shown(cluster, tmp_path)),))
    found = recommend(sweep, request).found
    (context,) = [c for key, c in found.specs.contexts.items() if key[1:] == ("shop", "frontend")]
    assert context.availability is not None
    assert [one.key for one in context.availability.spreads] == ["zone"]
    assert context.availability.need().why == (
        "PodDisruptionBudget keep (minAvailable 80%) lets a pod go only of 5 or more"
    )
