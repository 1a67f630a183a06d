"""A sweep to disk: wherever it ends, the next run goes on, and the bytes are the same."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import polars as pl
import pytest
from polars.testing import assert_frame_equal

from hpabatch import _jit
from hpabatch.engine.advise.specs import sets_of, settings_of
from hpabatch.engine.sweep import run as engine
from hpabatch.engine.sweep.request import SweepRequest
from hpabatch.engine.sweep.result import SweepResult
from hpabatch.engine.sweep.run import SweepPlan, plan_request
from hpabatch.errors import RefusedError, UsageError
from hpabatch.history.reader import open_history
from hpabatch.jobs.folder import Identity
from hpabatch.jobs.job import Job, Status, Task
from hpabatch.jobs.publish import Destination
from hpabatch.jobs.sweep import (
    Sweeping,
    SweepJob,
    sweep_to_disk,
    trajectories,
)
from hpabatch.jobs.sweep_files import read_sweep
from tests.cli.histories import edit
from tests.effort import MOST_THREADS
from tests.engine.swept import HOUR_MS, cut
from tests.jobs.test_resume import Killed, stop_at

pytestmark = pytest.mark.compiled

NAMES = ("ingest/enricher", "ingest/transform", "payments/api", "shop/checkout")
GRIDS = ("max=+1,+2", "scaleDown.window=60,900")
TABLES = ("settings", "hpas", "results", "blocks")
JOB = ".sweep.job"


@pytest.fixture(scope="module")
def history(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Hold four HPAs; no sample of the first one's pods is known."""
    return cut(tmp_path_factory.mktemp("sweep") / "history", *NAMES)


def cut_small(patch: pytest.MonkeyPatch) -> None:
    """Make two parts of two HPAs, and three chunks of two settings or fewer."""
    patch.setattr(engine, "HPAS_AT_ONCE", 2)
    patch.setattr(engine, "STEPS_AT_ONCE", 2 * 2 * 4 * 135)


@pytest.fixture(autouse=True)
def small_tasks(monkeypatch: pytest.MonkeyPatch) -> None:
    cut_small(monkeypatch)


def asked(**more: Any) -> SweepRequest:
    """Return a request of two hours without scores."""
    given: dict[str, Any] = {"grid": GRIDS, "fidelity": False, "length_ms": 2 * HOUR_MS}
    return SweepRequest(**(given | more))


def planned(history: Path, **more: Any) -> SweepPlan:
    return plan_request(open_history(history, "replay"), asked(**more))


def job_of(history: Path, out: Path, *, replace: bool = False, **more: Any) -> SweepJob:
    destination = Destination(out, is_folder=True)
    return SweepJob(asked(**more), planned(history, **more), destination, replace)


def run(history: Path, out: Path, *, replace: bool = False, **more: Any) -> tuple[SweepResult, int]:
    """Sweep; return what it came to and how many tasks were resumed."""
    seen: list[Status] = []
    job = job_of(history, out, replace=replace, **more)
    return sweep_to_disk(job, seen.append), seen[0].resumed if seen else 0


def files(folder: Path) -> dict[str, bytes]:
    """Return by name the bytes of a sweep's files."""
    return {place.name: place.read_bytes() for place in folder.iterdir()}


@pytest.fixture(scope="module")
def whole(history: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder of a sweep that nobody interrupts."""
    out = tmp_path_factory.mktemp("whole") / "sweep"
    with pytest.MonkeyPatch.context() as patch:
        cut_small(patch)
        run(history, out)
    return out


def stopped(history: Path, out: Path, place: str, at: int, **more: Any) -> None:
    """Leave what a run leaves that ends at some place."""
    with pytest.MonkeyPatch.context() as patch:
        stop_at(patch, place, at, Killed())
        with pytest.raises(Killed):
            run(history, out, **more)


def test_a_finished_sweep_is_read_and_not_computed_again(tmp_path: Path, history: Path) -> None:
    out = tmp_path / "sweep"
    first, _ = run(history, out)
    seen: list[Status] = []
    again = sweep_to_disk(job_of(history, out), seen.append)
    assert (seen, again.results.equals(first.results)) == ([], True)
    # One that cannot be read is made again.
    whole = files(out)
    (out / "results.parquet").write_bytes(whole["results.parquet"][:100])
    sweep_to_disk(job_of(history, out), seen.append)
    assert seen
    assert files(out) == whole


# ---- the same bytes


def test_threads_do_not_change_the_bytes(
    tmp_path: Path, history: Path, whole: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_jit, "THREADS", MOST_THREADS)  # (`whole` was made on one)
    run(history, tmp_path / "sweep")
    assert files(tmp_path / "sweep") == files(whole)


def test_parts_of_the_fleet_do_not_change_the_rows(
    tmp_path: Path, history: Path, whole: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They are row groups of results and blocks; with one HPA each, the first part has no rows."""
    monkeypatch.setattr(engine, "HPAS_AT_ONCE", 1)
    out = tmp_path / "sweep"
    run(history, out)
    for name in TABLES:
        frames = [pl.read_parquet(place / f"{name}.parquet") for place in (out, whole)]
        assert_frame_equal(*frames)
    for name in ("settings.parquet", "hpas.parquet"):
        assert (out / name).read_bytes() == (whole / name).read_bytes()
    about = [json.loads((place / "sweep.json").read_text()) for place in (out, whole)]
    for told in about:
        del told["sha256"]["results"], told["sha256"]["blocks"]
    assert about[0] == about[1]


# ---- what is in it


def test_what_is_told_of_a_sweep(history: Path, whole: Path) -> None:
    told = json.loads((whole / "sweep.json").read_text())["parameters"]
    assert (told["settings"], told["fields"]) == (5, ["max", "scaleDown.window"])
    assert told["block"] == {"unit": "day"}
    assert (told["profile"], told["currency"]) == ("1.38", None)
    assert told["request"]["history"] == str(history)
    assert SweepRequest.from_json(told["request"]) == asked()
    ((cluster, namespace, hpa, reason),) = told["skipped"]
    assert (cluster, namespace, hpa) == ("demo", "ingest", "enricher")
    assert reason.startswith("no sample of its metrics")


def test_notes_of_the_work_are_told(tmp_path: Path, history: Path) -> None:
    plant = tmp_path / "plant.yaml"
    plant.write_text("- hpa: shop/checkout\n  signals:\n    resource/nothing: {base: 10m}\n")
    with pytest.raises(UsageError, match="resource/nothing"):
        run(history, tmp_path / "sweep", plant=(str(plant),))
    plant.write_text(
        "- where: namespace = 'shop' OR namespace = 'payments'\n"
        "  signals:\n    container/*: {base: 10m}\n"
    )
    result, _ = run(history, tmp_path / "sweep", plant=(str(plant),))
    assert any("payments/api has no signal container/*" in n for n in result.parameters["notes"])


def test_own_policy_sets_are_kept_with_the_sweep(tmp_path: Path, history: Path) -> None:
    path = tmp_path / "sets.yaml"
    path.write_text("careful:\n  scaleDown:\n    policies:\n"
                    "    - {type: Pods, value: 1, periodSeconds: 90}\n")  # fmt: skip
    result, _ = run(history, tmp_path / "sweep", grid=("policies=careful",), policy_sets=str(path))
    path.unlink()
    assert sets_of(result)["careful"].scale_down is not None
    spec = only_spec(history)
    found = settings_of(result)({"policies": "careful"}, spec)
    assert found.behavior is not None
    assert found.behavior.scale_down is not None
    assert found.behavior.scale_down.policies is not None
    assert [p.period_seconds for p in found.behavior.scale_down.policies] == [90]


def only_spec(history: Path) -> Any:
    return planned(history).plan.chosen[-1].spec


# ---- other jobs


A_CHUNK = ("jobs.sweep:run_part", 3)


def test_another_sweep_is_replaced_only_if_asked(tmp_path: Path, whole: Path) -> None:
    history, out = cut(tmp_path / "history", "shop/checkout", "payments/api"), tmp_path / "sweep"
    run(history, out, grid=("max=+1",))
    before = files(out)
    moved = history.rename(tmp_path / "elsewhere")
    run(moved, out, grid=("max=+1",))  # (its place is not what it is)
    before = files(out)
    told = r"holds another sweep \(grid was max=\+1, is max=\+2\).*--replace"
    with pytest.raises(RefusedError, match=told):
        run(moved, out, grid=("max=+2",))
    edit(moved, "pod_metrics", cpu_milli=pl.col("cpu_milli") + 1)
    with pytest.raises(RefusedError, match=r"table pod_metrics was another"):
        run(moved, out, grid=("max=+1",))
    assert files(out) == before
    assert not (tmp_path / JOB).exists()
    (out / "sweep.json").write_text("{}")
    with pytest.raises(RefusedError, match=r"sweep\.json cannot be read"):
        run(moved, out, grid=("max=+1",))
    (out / "sweep.json").write_bytes(before["sweep.json"])


# ---- lenses


def lens_file(folder: Path, scale: float) -> str:
    place = folder / "lens.yaml"
    place.write_text(f"- {{signal: resource/cpu, scale: {scale}}}\n")
    return str(place)


def test_another_lens_is_another_sweep(tmp_path: Path, history: Path) -> None:
    out = tmp_path / "sweep"
    stopped(history, out, *A_CHUNK, lens=lens_file(tmp_path, 1.2))
    lens = lens_file(tmp_path, 1.3)
    with pytest.raises(UsageError, match=r"table lens\.yaml was another.*--replace"):
        run(history, out, lens=lens)
    lens_file(tmp_path, 1.2)
    result, resumed = run(history, out, lens=lens)
    assert resumed == 3
    assert result.evidence["lens"] == "resource/cpu scale 1.2"
    lens_file(tmp_path, 1.3)
    with pytest.raises(RefusedError, match=r"holds another sweep \(table lens\.yaml was another"):
        run(history, out, lens=lens)


def test_a_lens_stands_in_the_sweep_and_changes_what_is_simulated(
    tmp_path: Path, history: Path, whole: Path
) -> None:
    lens = lens_file(tmp_path, 1.5)
    result, _ = run(history, tmp_path / "sweep", lens=lens)
    assert result.parameters["lenses"] == [
        {"signal": "resource/cpu", "cluster": None, "lag_ms": 0, "smoothing_ms": 0, "scale": 1.5}
    ]
    assert result.parameters["lens_ratios"] == []
    plain = read_sweep(whole)
    assert "lens" not in plain.evidence
    same = ["hpa", "spec", "cpu_milli", "ceiling", "censored_pct", "days"]
    assert result.hpas.select(same).equals(plain.hpas.select(same))
    seen, raw = (r.results.filter(hpa="checkout", setting_id=0) for r in (result, plain))
    assert seen["replica_hours"][0] > 1.1 * raw["replica_hours"][0]
    ticks = trajectories(result, ("demo", "shop", "checkout"), [0])
    hours = float(ticks["desired"].sum() * 15 / 3600)
    assert hours == pytest.approx(seen["replica_hours"][0], rel=0.01)


def test_notes_of_a_part_do_not_depend_on_the_next_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    warnings: list[str] = []

    def prepare(sweep: Any, number: int, *, scored: bool) -> Any:
        warnings.append(f"warning {number}")
        return SimpleNamespace(skipped=(), notes=[f"note {number}"])

    monkeypatch.setattr("hpabatch.jobs.sweep.prepare_part", prepare)
    monkeypatch.setattr("hpabatch.jobs.sweep.hpas_frame", lambda sweep, part: pl.DataFrame())
    history: Any = SimpleNamespace(warnings=warnings)
    sweep: Any = SimpleNamespace(plan=SimpleNamespace(history=history))
    work = Job((), Sweeping(sweep).results, lambda: Identity("", {}), "", {}, history=history)
    found = list(work.compute([Task(f"{k}", 1, (k, 0, 0)) for k in range(2)]))
    records = [work.save(result, tmp_path) for result in found]
    assert [record["notes"] for record in records] == [["note 0"], ["note 1"]]
    assert [record["warnings"] for record in records] == [["warning 0"], ["warning 0", "warning 1"]]
