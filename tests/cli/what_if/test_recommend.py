"""`hpabatch recommend`: answers, files and refusals, on sweeps made by hand."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from hpabatch.model.objects.decode import decode_hpa
from hpabatch.model.objects.encode import encode_spec
from hpabatch.model.settings.patch import apply_patch
from tests.cli.commands import Run, runner
from tests.sweeps import SPEC, SweepMaker, weeks

SLO = ("--slo", "saturated_minutes<10/week")
GRID = [{"target": "70"}, {"target": "75", "scaleDown.window": "600"}, {"policies": "gentle"}]
MANIFEST = """\
apiVersion: autoscaling/v2
kind: HorizontalPodAutoscaler
metadata:
  name: api  # ours
spec:
  scaleTargetRef: {kind: Deployment, name: api, apiVersion: apps/v1}
  minReplicas: 2
  maxReplicas: 10
  metrics:
    - type: Resource
      resource:
        name: cpu
        target:
          type: Utilization
          averageUtilization: 60  # why?
"""


@pytest.fixture
def run(capsysbinary: pytest.CaptureFixture[bytes], monkeypatch: pytest.MonkeyPatch) -> Run:
    return runner("recommend", capsysbinary, monkeypatch)


@pytest.fixture
def sweep(tmp_path: Path) -> Path:
    """Of three HPAs one can be improved, one cannot hold the SLO, one is not known well enough."""
    maker = SweepMaker(GRID)
    calm = [5.0] * 6
    maker.add(
        "api",
        {
            0: weeks([100] * 6, saturated_minutes=calm),
            1: weeks([85] * 6, saturated_minutes=calm),
            2: weeks([75] * 6, saturated_minutes=calm),
            3: weeks([95] * 6, saturated_minutes=calm),
        },
    )
    maker.add("web", {k: weeks([50] * 6, saturated_minutes=[50.0] * 6) for k in range(4)})
    maker.add(
        "new",
        {k: weeks([50] * 6) for k in range(4)},
        controller_answer="wrong",
        why_not="the settings differ",
    )
    return maker.write(tmp_path / "sweep")


def test_patches_and_certificates(run: Run, sweep: Path, tmp_path: Path) -> None:
    out = tmp_path / "patches"
    assert run(sweep, *SLO, "--patches", out).code == 0
    names = {path.name for path in out.iterdir()}
    assert names == {
        "shop.api.yaml",
        "shop.api.json",
        "shop.new.json",
        "shop.web.json",
        "recommendations.json",
    }
    text = (out / "shop.api.yaml").read_text()
    patch = yaml.safe_load(text)
    told = json.loads((out / "shop.api.json").read_text())
    assert patch == told["patch"]
    document = {"apiVersion": "autoscaling/v2", "kind": "HorizontalPodAutoscaler", "spec": SPEC}
    hpa, problems = decode_hpa(apply_patch(document, patch))
    assert not problems
    assert encode_spec(hpa.spec)["metrics"] == told["spec"]["recommended"]["metrics"]
    comments = [line for line in text.splitlines() if line.startswith("#")]
    assert comments[0] == "# shop/api: target utilization 60 -> 75, scaleDown.window 300 -> 600"
    assert "# judged on 2 weeks from 2026-10-05T00:00:00Z:" in comments
    assert "#   25.0% less pod-hours" in comments
    assert any(line.endswith(told["sweep"]["sha256"]) for line in comments)
    assert not {p.name for p in tmp_path.iterdir()} - {"sweep", "patches"}


def test_earlier_recommendations_are_replaced_and_nothing_else(
    run: Run, sweep: Path, tmp_path: Path
) -> None:
    out = tmp_path / "patches"
    assert run(sweep, *SLO, "--patches", out).code == 0
    strict = ("--slo", "saturated_minutes<=0")
    assert run(sweep, *strict, "--patches", out).code == 0
    assert not (out / "shop.api.yaml").exists()
    (out / "notes.txt").write_text("mine")
    done = run(sweep, *SLO, "--patches", out)
    assert done.code == 2
    assert "holds notes.txt, which is no earlier recommendation" in done.stderr
    assert (out / "notes.txt").read_text() == "mine"
    (tmp_path / "file").write_text("")
    assert "is a file; name a folder" in run(sweep, *SLO, "--patches", tmp_path / "file").stderr


def test_copies_of_manifests_are_edited(run: Run, sweep: Path, tmp_path: Path) -> None:
    manifests, out = tmp_path / "deploy", tmp_path / "patches"
    (manifests / "base").mkdir(parents=True)
    file = manifests / "base" / "api.yaml"
    file.write_text(MANIFEST)
    assert run(sweep, *SLO, "--patches", out, "--hpas", manifests).code == 0
    wanted = MANIFEST.replace("averageUtilization: 60", "averageUtilization: 75")
    wanted += "  behavior:\n    scaleDown:\n      stabilizationWindowSeconds: 600\n"
    assert (out / "manifests" / "base" / "api.yaml").read_text() == wanted
    assert file.read_text() == MANIFEST
    # What is recommended is there now, so there is nothing to edit.
    file.write_text(wanted)
    assert run(sweep, *SLO, "--patches", out, "--hpas", manifests).code == 0
    assert (out / "manifests" / "base" / "api.yaml").read_text() == wanted


def test_a_manifest_that_cannot_be_edited_is_told(run: Run, sweep: Path, tmp_path: Path) -> None:
    file, out = tmp_path / "api.yaml", tmp_path / "patches"
    file.write_text(MANIFEST.replace("maxReplicas: 10", "maxReplicas: 12"))
    done = run(sweep, *SLO, "--patches", out, "--hpas", file)
    assert done.code == 3
    assert "the manifest is not what was judged (maxReplicas 10 -> 12): not edited" in done.stderr
    assert not (out / "shop.api.yaml").exists()
    told = json.loads((out / "shop.api.json").read_text())
    assert (told["answer"], told["patch"]) == ("change", None)
    assert told["withheld"] == (
        "edited since it was judged: maxReplicas 10 -> 12; import it and sweep again"
    )
    file.write_text("{{ .Values.hpa }}")
    done = run(sweep, *SLO, "--patches", out, "--hpas", file)
    assert done.code == 2
    assert "unrendered Helm template" in done.stderr
    assert "shop/api has no manifest there: not edited" in done.stderr


def live_objects(tmp_path: Path, **metadata: Any) -> Path:
    """Write the HPA as a cluster has it."""
    file = tmp_path / "objects.yaml"
    document = yaml.safe_load(MANIFEST)
    document["metadata"] |= {"namespace": "shop", **metadata}
    file.write_text(yaml.safe_dump(document))
    return file


def test_an_hpa_that_was_edited_since_gets_no_patch(run: Run, sweep: Path, tmp_path: Path) -> None:
    objects, out = live_objects(tmp_path), tmp_path / "patches"
    assert run(sweep, *SLO, "--patches", out, "--objects", objects).code == 0
    assert (out / "shop.api.yaml").exists()
    objects.write_text(
        objects.read_text().replace("averageUtilization: 60", "averageUtilization: 65")
    )
    done = run(sweep, *SLO, "--patches", out, "--objects", objects)
    assert done.code == 3
    field = "metrics[0].resource.target.averageUtilization 60 -> 65"
    assert f"shop/api: edited since it was judged: {field}; import it" in done.stderr
    assert not (out / "shop.api.yaml").exists()
    assert "patches 0, certificates 3, changes without a patch 1" in done.stderr + done.stdout
    # An answer alone is no patch: nothing is left out against anyone's wish.
    done = run(sweep, *SLO, "--objects", objects)
    assert (done.code, "no patch is written: edited since" in done.stdout) == (0, True)


@pytest.mark.parametrize(
    ("metadata", "source", "in_manifest"),
    [
        ({"labels": {"kustomize.toolkit.fluxcd.io/name": "apps"}}, "Flux Kustomization", True),
        ({"annotations": {"meta.helm.sh/release-name": "api"}}, "Helm release shop/api", False),
    ],
)
def test_an_hpa_that_something_else_writes_gets_no_patch(
    run: Run, sweep: Path, tmp_path: Path, metadata: Any, source: str, in_manifest: bool
) -> None:
    objects, out = live_objects(tmp_path, **metadata), tmp_path / "patches"
    manifest = tmp_path / "api.yaml"
    manifest.write_text(MANIFEST)
    done = run(sweep, *SLO, "--patches", out, "--objects", objects, "--hpas", manifest)
    assert done.code == 0
    assert f"no patch of shop/api: owned by {source}" in done.stderr
    assert not (out / "shop.api.yaml").exists()
    # What Flux applies is changed in its manifests.
    assert (out / "manifests" / "api.yaml").exists() == in_manifest
    told = json.loads((out / "shop.api.json").read_text())
    assert told["patch"] is None
    assert told["spec"]["recommended"]["metrics"] != told["spec"]["today"]["metrics"]


def test_a_patch_tells_which_lists_it_replaces(run: Run, tmp_path: Path) -> None:
    memory = {"name": "memory", "target": {"type": "AverageValue", "averageValue": "1Gi"}}
    spec = {**SPEC, "metrics": [*SPEC["metrics"], {"type": "Resource", "resource": memory}]}
    maker = SweepMaker([{"target.cpu": "70", "policies": "gentle"}])
    maker.add("api", {0: weeks([100] * 6), 1: weeks([80] * 6)}, spec=spec)
    out = tmp_path / "patches"
    assert run(maker.write(tmp_path / "sweep"), *SLO, "--patches", out).code == 0
    lines = (out / "shop.api.yaml").read_text().splitlines()
    assert (
        "# replaces the whole list spec.metrics: changed Resource cpu; as before Resource memory"
    ) in lines
    assert "# replaces the whole list spec.behavior.scaleDown.policies" in lines


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--objects", "x"), "objects x cannot be read"),
        (("--instance-label", "argo"), "--instance-label"),
        (("--slo", "saturated<1/week"), "saturated is no measure of a block"),
        (("--minimize", "cost"), "minimize pod_hours, core_hours or gib_hours\n"),
        (("--bound", "size=3"), "--bound size=3: no such field"),
        (("--margin", "1"), "--margin: expected a number of at most 0.99, got 1"),
        (
            ("--min-history", "2 weeks"),
            "--min-history: expected a duration (whole numbers",
        ),
        (("--hpas", "x"), "--hpas needs --patches FOLDER"),
        (("--patches", "out", "--hpas", "-"), "--hpas -: only files can be edited"),
    ],
)
def test_what_is_impossible_is_refused(
    run: Run,
    sweep: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    arguments: tuple[str, ...],
    message: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    done = run(sweep, *arguments)
    assert done.code == 2
    assert message in done.stderr
    assert not Path("out").exists()


def test_what_is_no_sweep_is_told(run: Run, tmp_path: Path) -> None:
    done = run(tmp_path)
    assert done.code == 2
    assert "is not the folder of a sweep" in done.stderr
