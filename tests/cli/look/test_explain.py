"""`hpabatch explain` at the command line: what it shows, asks for and refuses."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.cli.commands import Done, Run, runner
from tests.cli.histories import DEMO, ROOT, edit_spec, small, table

HPA = "batch/worker"
AT = "2026-10-07 00:05:45"


@pytest.fixture
def run(capsysbinary: pytest.CaptureFixture[bytes], monkeypatch: pytest.MonkeyPatch) -> Run:
    monkeypatch.setattr("hpabatch.cli.progress.tell_compiling", lambda kernel: None)
    return runner("explain", capsysbinary, monkeypatch)


@pytest.fixture(scope="module")
def history(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return small(tmp_path_factory.mktemp("explain") / "history", minutes=8)


def document(done: Done) -> dict[str, Any]:
    assert done.code == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    return found


# ---- what it shows -------------------------------------------------------------------------------


def test_the_documentation_shows_what_is_shown(run: Run) -> None:
    done = run(DEMO, HPA, "--at", AT)
    assert (done.code, done.stderr) == (0, "")
    text = (ROOT / "docs" / "explain.md").read_text()
    assert f'$ hpabatch explain data/demo {HPA} --at "{AT}"\n{done.stdout}```' in text


def test_every_line_is_documented(run: Run) -> None:
    from hpabatch.report.explain import metric as explain_metric
    from hpabatch.report.explain import steps as explain_steps

    text = (ROOT / "docs" / "explain.md").read_text()
    found = set()
    for module in (explain_metric, explain_steps):
        parts = Path(str(module.__file__)).read_text().split('Step("')[1:]
        found |= {part.split('"')[0] for part in parts}
    assert len(found) > 20
    assert {name for name in found if f"`{name}`" not in text} == set()


def test_json_has_the_numbers_of_the_table(run: Run, history: Path) -> None:
    found = document(run(history, HPA, "--at", AT, "--output", "json"))
    assert (found["cluster"], found["namespace"], found["hpa"]) == ("demo", "batch", "worker")
    assert (found["asked"], found["sync"]) == ("2026-10-07T00:05:45Z",) * 2
    assert found["metrics"][0]["first"]["ratio"] == 152 / 70
    assert found["limits"]["policies"][0]["limit"] == 4
    shown = run(history, HPA, "--at", AT).stdout
    assert all(step["text"] in shown for step in found["steps"])


def test_without_an_instant_the_last_sync(run: Run, history: Path) -> None:
    found = document(run(history, HPA, "-o", "json"))
    assert (found["asked"], found["sync"]) == (None, "2026-10-07T00:07:45Z")


# ---- what it is asked for ------------------------------------------------------------------------


def test_manifests_explain_what_they_would_have_decided(
    run: Run, history: Path, tmp_path: Path
) -> None:
    row = table(history, "hpas").filter(name="worker").row(0, named=True)
    spec = json.loads(row["spec"]) | {"maxReplicas": 3}
    manifest = {
        "apiVersion": "autoscaling/v2",
        "kind": "HorizontalPodAutoscaler",
        "metadata": {"name": "smaller", "namespace": "batch"},
        "spec": spec,
    }
    path = tmp_path / "hpa.json"
    path.write_text(json.dumps(manifest))
    done = run(history, "smaller", "--hpas", path, "--at", AT)
    assert done.code == 0, done.stderr
    assert "2 -> 3: maxReplicas held it" in done.stdout
    bad = tmp_path / "bad.json"
    bad.write_text(json.dumps(manifest | {"spec": spec | {"maxReplicas": 0}}))
    done = run(history, "smaller", "--hpas", path, "--hpas", bad, "--at", AT)
    assert (done.code, "maxReplicas" in done.stderr) == (3, True)
    assert "2 -> 3" in done.stdout


def test_compiling_is_told(run: Run, history: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()
    monkeypatch.setattr("hpabatch._code.has_compiled", lambda kernel: False)
    assert run(history, HPA, "--at", AT).stderr == "compiling the rules, once, about 25 s\n"


# ---- what it refuses -----------------------------------------------------------------------------


def test_a_refused_hpa(run: Run, tmp_path: Path) -> None:
    broken = small(tmp_path / "broken", minutes=2)
    edit_spec(broken, "worker", maxReplicas=0)
    done = run(broken, HPA)
    assert (done.code, done.stdout) == (3, "")
    assert "error: batch/worker: the API server of 1.38 refuses it: " in done.stderr
