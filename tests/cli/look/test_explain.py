"""`hpabatch explain` at the command line: what it shows, asks for and refuses."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from hpabatch.report.base import View
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


@pytest.mark.parametrize(
    "at",
    [
        "2026-10-07 00:05:59",
        "2026-10-07T00:05:45Z",
        "2026-10-07T02:05:50.5+02:00",
        "2026-10-07 02:05:45 +02:00",
    ],
)
def test_instants_in_any_form(run: Run, history: Path, at: str) -> None:
    assert document(run(history, HPA, "--at", at, "-o", "json"))["sync"] == "2026-10-07T00:05:45Z"


def test_without_an_instant_the_last_sync(run: Run, history: Path) -> None:
    found = document(run(history, HPA, "-o", "json"))
    assert (found["asked"], found["sync"]) == (None, "2026-10-07T00:07:45Z")


def test_a_terminal_is_written_for(
    run: Run, history: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from hpabatch.report import forms

    asked: list[Any] = []

    def report_bytes(report: object, output: object, view: View) -> bytes:
        asked.append(view[:2])
        return b"\n"

    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    monkeypatch.setenv("COLUMNS", "77")
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setattr(forms, "report_bytes", report_bytes)
    run(history, HPA)
    monkeypatch.setenv("NO_COLOR", "1")
    run(history, HPA)
    assert asked == [(77, True), (77, False)]


# ---- what it is asked for ------------------------------------------------------------------------


def test_options_change_what_it_rests_on(run: Run, history: Path) -> None:
    options = ["--k8s", "1.36", "--feature-gates", "HPAScaleToZero=true", "--events", "decided"]
    options += ["--sync-period", "30s", "--phase", "5s", "--delay", "10s", "--max-age", "2m"]
    found = document(run(history, HPA, "--at", AT, "-o", "json", *options))
    assert found["sync"] == "2026-10-07T00:05:35Z"
    told = found["assumed"]
    assert (found["k8s"], told["k8s_source"], told["events"]) == ("1.36", "given", "decided")
    assert told["syncs"] == "every 30s (given), 5s after full periods (given)"
    assert (told["delay"], told["max_age"]) == ("10s (given)", "2m (given)")
    assert told["gates"].startswith("HPAContainerMetrics=true, HPAScaleToZero=true,")


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


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["batch/wroker"], 2, "there is no such HPA; did you mean batch/"),
        ([HPA, "--at", "noon"], 2, "--at: expected a time"),
        ([HPA, "--at", "2026-10-06"], 2, "--at: expected a time from"),
        ([HPA, "--output", "xml"], 2, "table"),
    ],
)
def test_what_cannot_be_explained(
    run: Run, history: Path, arguments: list[str], code: int, message: str
) -> None:
    done = run(history, *arguments)
    assert done.code == code
    assert message in " ".join(done.stderr.split())
    assert done.stdout == ""


def test_a_refused_hpa(run: Run, tmp_path: Path) -> None:
    broken = small(tmp_path / "broken", minutes=2)
    edit_spec(broken, "worker", maxReplicas=0)
    done = run(broken, HPA)
    assert (done.code, done.stdout) == (3, "")
    assert "error: batch/worker: the API server of 1.38 refuses it: " in done.stderr
