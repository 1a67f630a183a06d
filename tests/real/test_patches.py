"""Recommended patches, applied by kubectl 1.20.2 to a server of 1.20.2.

Every HPA is put into the server as people write it, read back, and advised on as `recommend`
does. Then the command that the patch's own comment names is typed, or its request sent, and the
server must hold exactly the recommended spec and nothing else new.
"""

from __future__ import annotations

import re
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
import yaml

from hpabatch.engine.advise.answer import CHANGE, KEEP
from hpabatch.engine.advise.bounds import parse_bounds
from hpabatch.engine.advise.objective import RecommendOptions, parse_goal
from hpabatch.engine.advise.request import JudgeRules
from hpabatch.engine.advise.run import Recommendation, recommend
from hpabatch.engine.advise.specs import settings_of
from hpabatch.inputs.manifests import stored_spec
from hpabatch.model.objects.decode import decode_hpa
from hpabatch.model.objects.encode import encode_spec
from hpabatch.model.objects.hpa import HPASpec
from hpabatch.model.settings.fields import SHIPPED
from hpabatch.model.settings.setting import apply_setting, setting_of
from hpabatch.model.versions import profile_for
from hpabatch.report.recommend_files import recommendation_files
from tests.real.api_writes import Writer
from tests.real.cluster import Cluster, missing
from tests.real.kubectl_objects import CPU, Json, now, spec, status
from tests.real.patch_cases import EVERYTHING, MANIFEST, METADATA, SETTINGS, WRITTEN
from tests.real.server_hpas import (
    GATES,
    NAMESPACE,
    VERSIONS,
    as_list,
    collection,
    document,
    read_item,
    stored,
    write_status,
)
from tests.sweeps import SweepMaker, weeks

pytestmark = pytest.mark.skipif(bool(missing()), reason=missing())
PROFILE = profile_for("1.20", GATES)
FORGETTING = ("container", "v2")
"""HPAs with a metric of a container, which v2beta1 forgets the name of."""
RESOURCE = "horizontalpodautoscalers.v2beta2.autoscaling"
Items = dict[str, Json]


@pytest.fixture(scope="module")
def cluster(empty_cluster: Cluster) -> Cluster:
    return empty_cluster


def items_of(cluster: Cluster, version: str = "v2beta2") -> Items:
    return {item["metadata"]["name"]: item for item in stored(cluster, version)}


def spec_of(item: Json, version: str = "v2beta2") -> HPASpec:
    hpa, problems = read_item(item, version)
    assert not problems
    return hpa.spec


def rest(item: Json, *ignored: str) -> Json:
    """Return all of an object but its spec, what every write changes, and some annotations."""
    metadata = dict(item["metadata"])
    for name in ("resourceVersion", "managedFields"):
        metadata.pop(name)
    kept = {k: v for k, v in metadata.get("annotations", {}).items() if k not in ignored}
    return {**item, "spec": None, "metadata": {**metadata, "annotations": kept}}


def fields_of(item: Json, manager: str) -> set[str]:
    """Return the fields at the top of an object that a program was the last to write."""
    entries = [m["fieldsV1"] for m in item["metadata"]["managedFields"] if m["manager"] == manager]
    return {name for entry in entries for name in entry}


# ---- patches ------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Patched:
    """What became of HPAs, by name: `done` is how the command of a patch ended, where it was typed.

    `after` is by version.
    """

    advice: Mapping[str, Recommendation]
    done: Mapping[str, subprocess.CompletedProcess[str]]
    before: Items
    after: Mapping[str, Items]


def written(name: str, place: int) -> Json:
    """Return the document of the HPA that is to get the setting of that place."""
    found = WRITTEN[name]
    metadata = {**METADATA, "annotations": {**METADATA["annotations"], **found.annotations}}
    return document(f"{name}.{place}", found.spec, metadata, found.version)


def advise(maker: SweepMaker, folder: Path) -> dict[str, Recommendation]:
    """Recommend whatever is cheaper, by the rules of 1.20, and write the files."""
    result = replace(maker.result(), evidence={"k8s": "1.20", "feature_gates": GATES})
    bounds = parse_bounds(["target=any", "min=any", "max=any"])
    goal, rules = parse_goal([], "pod_hours"), JudgeRules(resamples=10)
    options = RecommendOptions(goal, rules, bounds, accept="low")
    found = recommend(result, options, settings_of(result))
    for name, text in recommendation_files(found)[0].items():
        (folder / name).write_text(text)
    return {item.key[2]: item for item in found.items}


def command_of(patch: Path) -> str:
    """Return the command that a patch's comment names."""
    (command,) = re.findall("^# apply: (kubectl .*)$", patch.read_text(), flags=re.MULTILINE)
    return str(command)


@pytest.fixture(scope="module")
def patched(cluster: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Patched:
    """Put the HPAs into the server, advise on them, and patch them as is said.

    Of the setting that changes everything the commands are typed. kubectl takes a tenth of a second
    of CPU for each: of the others its request is sent.
    """
    folder = tmp_path_factory.mktemp("patches")
    documents = [(written(name, k), k) for k, (_, names) in enumerate(SETTINGS) for name in names]
    cluster.kubectl("create", "-f", "-", stdin=as_list(one for one, _ in documents))
    maker = SweepMaker([values for values, _ in SETTINGS])
    there = items_of(cluster, "v2")
    for one, place in documents:
        name = one["metadata"]["name"]
        if SETTINGS[place][0] is EVERYTHING:
            write_status(cluster, document(name, {}), status(now(CPU, averageUtilization=45)))
        came_to = {0: weeks([100] * 6), place + 1: weeks([80] * 6)}
        maker.add(name, came_to, spec=encode_spec(spec_of(there[name], "v2")))
    advice = advise(maker, folder)
    before = items_of(cluster)
    done, writer = {}, Writer(cluster)
    for name, item in advice.items():
        patch = folder / f"shop.{name}.yaml"
        command = command_of(patch) if item.answer == CHANGE else ""
        if command and SETTINGS[int(name.rpartition(".")[2])][0] is EVERYTHING:
            done[name] = cluster.try_shell(command, folder)
        elif command:
            words = f"kubectl patch {RESOURCE} {name} -n {NAMESPACE} --type strategic "
            assert command == f"{words}--patch-file {patch.name}"
            path = f"{collection('v2beta2')}/{name}?fieldManager=kubectl-patch"
            writer.send("PATCH", path, yaml.safe_load(patch.read_text()), "strategic-merge")
    return Patched(
        advice, done, before, {version: items_of(cluster, version) for version in VERSIONS}
    )


@pytest.mark.parametrize("name", list(WRITTEN))
def test_the_command_of_a_patch_makes_the_recommended_spec(patched: Patched, name: str) -> None:
    places = [k for k, (_, names) in enumerate(SETTINGS) if name in names]
    assert len(places) >= 3
    assert f"{name}.0" in patched.done
    for one in (f"{name}.{place}" for place in places):
        item, before, after = (
            patched.advice[one],
            patched.before[one],
            patched.after["v2beta2"][one],
        )
        assert rest(after) == rest(before)
        if item.answer == KEEP:
            assert after == before
            continue
        if done := patched.done.get(one):
            assert (done.returncode, done.stderr) == (0, "")
            assert done.stdout == f"horizontalpodautoscaler.autoscaling/{one} patched\n"
        assert item.wanted is not None
        assert after["spec"] == encode_spec(item.wanted) != before["spec"]
        assert fields_of(after, "kubectl-patch") == {"f:spec"}
        for version, items in patched.after.items():
            if version != "v2beta1" or name not in FORGETTING:
                assert spec_of(items[one], version) == item.wanted, version


def test_few_settings_change_nothing(patched: Patched) -> None:
    kept = {name for name, item in patched.advice.items() if item.answer != CHANGE}
    policies = [k for k, (values, _) in enumerate(SETTINGS) if "scaleDown.policies" in values]
    assert kept == {f"behavior-empty.{policies[0]}"}


# ---- files --------------------------------------------------------------------------------------


def test_kustomize_takes_a_patch_file(cluster: Cluster, tmp_path: Path) -> None:
    text = MANIFEST.replace("NAME", "kustomized")
    (tmp_path / "hpa.yaml").write_text(text)
    hpa, _ = decode_hpa(next(yaml.safe_load_all(text)))
    today = stored_spec(hpa, PROFILE)
    maker = SweepMaker([EVERYTHING])
    maker.add("kustomized", {0: weeks([100] * 6), 1: weeks([80] * 6)}, spec=encode_spec(today))
    advice = advise(maker, tmp_path)
    listed = {"resources": ["hpa.yaml"], "patchesStrategicMerge": ["shop.kustomized.yaml"]}
    (tmp_path / "kustomization.yaml").write_text(yaml.safe_dump(listed))
    cluster.kubectl("apply", "-k", str(tmp_path))
    assert spec_of(items_of(cluster)["kustomized"]) == replace(
        apply_setting(setting_of(EVERYTHING), today, SHIPPED, PROFILE),
        scale_target_ref=hpa.spec.scale_target_ref,
    )
    assert advice["kustomized"].answer == CHANGE


def test_the_command_works_whatever_the_clusters_are_called(
    cluster: Cluster, tmp_path: Path
) -> None:
    cluster.kubectl("create", "-f", "-", stdin=as_list([document("1e3", spec(CPU))]))
    maker = SweepMaker([{"max": "20"}, {"max": "30"}])
    names = ("-Größe $HOME/1'", "a b")
    for setting_id, name in enumerate(names, 1):
        came_to = {0: weeks([100] * 6), setting_id: weeks([80] * 6)}
        maker.add("1e3", came_to, cluster=name, spec=spec(CPU))
    advise(maker, tmp_path)
    patches = sorted(tmp_path.glob("*.yaml"))
    assert len(patches) == len(names)
    reached = set()
    for patch in patches:
        done = cluster.try_shell(command_of(patch), tmp_path)
        assert (done.returncode, done.stderr) == (0, "")
        reached.add(items_of(cluster)["1e3"]["spec"]["maxReplicas"])
    assert reached == {20, 30}
