"""Patches with a tolerance, merged by kubectl 1.33, as the server of 1.20 knows no tolerance.

`kubectl patch --local` merges strategically without a server; defaults are filled in here.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import yaml

from hpabatch.inputs.manifests import stored_spec
from hpabatch.model.objects.decode import decode_hpa
from hpabatch.model.objects.encode import encode_spec
from hpabatch.model.objects.hpa import HPASpec
from hpabatch.model.settings.fields import SHIPPED
from hpabatch.model.settings.patch import patch_document, spec_patch
from hpabatch.model.settings.setting import apply_setting, setting_of
from hpabatch.model.versions import profile_for
from tests.real.cluster import Cluster, newer_kubectl
from tests.real.kubectl_objects import Json
from tests.real.patch_cases import EVERYTHING, WRITTEN
from tests.real.server_hpas import document

PROGRAM = newer_kubectl("1.33")
pytestmark = pytest.mark.skipif(PROGRAM is None, reason="no kubectl.1.33 on this machine")
PROFILE = profile_for("1.37")
SETTINGS = (
    {"tolerance": "0.05"},
    {"scaleDown.tolerance": "0.2"},
    {**EVERYTHING, "tolerance": "0"},
    {"scaleUp.tolerance": "0.3", "policies": "gentle"},
)
V2 = [name for name, one in WRITTEN.items() if one.version in ("v2", "v2beta2")]


def spec_of(item: Json) -> HPASpec:
    hpa, problems = decode_hpa(item)
    assert not problems
    return stored_spec(hpa, PROFILE)


@pytest.mark.parametrize("tolerant", [False, True])
@pytest.mark.parametrize("place", range(len(SETTINGS)))
def test_a_patch_with_a_tolerance_makes_the_recommended_spec(
    tmp_path: Path, place: int, tolerant: bool
) -> None:
    kubectl = Cluster({"HOME": str(tmp_path), "PATH": ""})
    tried: list[tuple[object, object]] = []
    for name in V2:
        item = document(name, WRITTEN[name].spec, version="v2")
        if tolerant:
            item = json.loads(json.dumps(item))
            rules = item["spec"].setdefault("behavior", {}).setdefault("scaleDown", {})
            rules["tolerance"] = "0.15"
        today = spec_of(item)
        live = {**item, "spec": encode_spec(today)}
        wanted = apply_setting(setting_of(SETTINGS[place]), today, SHIPPED, PROFILE)
        changes = spec_patch(today, wanted)
        # What is merged: most HPAs have the same metrics, or rules, as another one.
        merged = {key: live["spec"].get(key) for key in changes}
        if (merged, changes) in tried:
            continue
        tried.append((merged, changes))
        patch = patch_document(name, "shop", changes)
        (tmp_path / "live.json").write_text(json.dumps(live))
        (tmp_path / "patch.yaml").write_text(yaml.safe_dump(patch))
        done = kubectl.kubectl(
            *("patch", "--local", "-f", str(tmp_path / "live.json"), "--type", "strategic"),
            *("--patch-file", str(tmp_path / "patch.yaml"), "-o", "json"),
            program=PROGRAM,
        )
        assert spec_of(json.loads(done)) == wanted, name
