"""Jobs by workers: the same bytes as of one process, from a folder or from S3."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from polars.testing import assert_frame_equal

from hpabatch.api.analysis import quality
from hpabatch.api.fits import fidelity, fit
from hpabatch.api.simulations import plan
from hpabatch.engine.capacity.request import PlanRequest
from hpabatch.engine.fidelity.request import FidelityRequest
from hpabatch.engine.fit.request import FitRequest
from hpabatch.engine.quality.request import QualityRequest
from hpabatch.engine.replay.request import ReplayToRequest
from hpabatch.engine.sweep.request import SweepRequest
from hpabatch.engine.sweep.run import plan_request
from hpabatch.errors import UnfinishedError, UsageError
from hpabatch.history.reader import open_history
from hpabatch.history.store import objects
from hpabatch.history.store.upkeep import migrate
from hpabatch.inputs.workers import Spread
from hpabatch.jobs import processes, replay
from hpabatch.jobs.publish import Destination
from hpabatch.jobs.replay import ReplayJob, plan_of, replay_to_disk
from hpabatch.jobs.sweep import SweepJob, sweep_to_disk
from tests.buckets import open_bucket
from tests.engine.swept import HOUR_MS, cut
from tests.jobs.dask_cluster import QUIET, Cluster
from tests.jobs.small import keep_workers, kept_workers, plan_small_jobs

pytestmark = [pytest.mark.compiled, *QUIET]
NAMES = ("ingest/enricher", "ingest/transform", "payments/api", "shop/checkout")


@pytest.fixture(scope="module")
def history(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return cut(tmp_path_factory.mktemp("spread") / "history", *NAMES)


@pytest.fixture(scope="module")
def kept() -> Iterator[list[processes.Child]]:
    with kept_workers() as found:
        yield found


@pytest.fixture(autouse=True)
def small_parts(monkeypatch: pytest.MonkeyPatch, kept: list[processes.Child]) -> None:
    plan_small_jobs(monkeypatch)
    keep_workers(monkeypatch, kept)


@pytest.fixture(scope="module")
def bucket() -> Iterator[str]:
    with open_bucket() as url:
        yield url


@pytest.fixture(scope="module")
def cluster(bucket: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """Yield workers that find the bucket by their own environment."""
    found = Cluster(tmp_path_factory.mktemp("dask"), 1)
    yield found
    found.close()


def swept(location: str | Path, out: Path, spread: Spread) -> dict[str, bytes]:
    """Sweep; return the bytes of the result by name."""
    request = SweepRequest(
        grid=("max=+1,+2", "scaleDown.window=60,900"), fidelity=False, length_ms=2 * HOUR_MS
    )
    found = plan_request(open_history(location, "replay"), request)
    sweep_to_disk(SweepJob(request, found, Destination(out, is_folder=True), spread=spread))
    return {path.name: path.read_bytes() for path in out.iterdir()}


def replayed(location: str | Path, out: Path, **more: Any) -> tuple[bytes, Any]:
    """Replay; return the bytes of the decisions, and the summary."""
    request = ReplayToRequest(score=True, **more)
    history = open_history(location, None if request.hpas else "replay")
    manifests = replay.given_hpas(history, request) if request.hpas else None
    job = ReplayJob(
        plan=plan_of(history, request, manifests),
        destination=Destination(out),
        manifests=manifests,
        request=request,
    )
    done = replay_to_disk(job)
    return out.read_bytes(), (done.summary.to_dicts(), done.warnings, done.evidence)


def test_a_sweep_by_processes(history: Path, tmp_path: Path) -> None:
    here = swept(history, tmp_path / "here", Spread())
    assert swept(history, tmp_path / "there", Spread(workers=2)) == here


def test_a_sweep_by_dask_of_a_history_in_s3(
    history: Path, cluster: Cluster, bucket: str, tmp_path: Path
) -> None:
    migrate(history, f"{bucket}/history")
    here = swept(f"{bucket}/history", tmp_path / "here", Spread())
    spread = Spread(scheduler=cluster.address, parts=f"{bucket}/parts")
    assert swept(f"{bucket}/history", tmp_path / "there", spread) == here


def test_a_replay_by_processes(history: Path, tmp_path: Path) -> None:
    more: dict[str, Any] = {"why": True, "events": "decided"}
    here = replayed(history, tmp_path / "here", **more)
    assert replayed(history, tmp_path / "there", workers=2, **more) == here


def test_a_replay_of_manifests_through_a_lens(history: Path, tmp_path: Path) -> None:
    manifest = tmp_path / "api.yaml"
    manifest.write_text(
        "{apiVersion: autoscaling/v2, kind: HorizontalPodAutoscaler, metadata: {name: api, "
        "namespace: payments}, spec: {maxReplicas: 5, scaleTargetRef: {apiVersion: apps/v1, "
        "kind: Deployment, name: api}}}"
    )
    more = {"hpas": (str(manifest),), "lens": "auto"}
    here = replayed(history, tmp_path / "here", **more)
    assert replayed(history, tmp_path / "there", workers=2, **more) == here


def test_fits_and_scores_by_processes(history: Path) -> None:
    source = open_history(history)
    here, there = fit(source, FitRequest()), fit(source, FitRequest(workers=2))
    assert_frame_equal(here.facts, there.facts, check_exact=True)
    assert (here.hpas.rows(), here.result) == (there.hpas.rows(), there.result)
    scored = [fidelity(source, FidelityRequest(workers=n)) for n in (None, 2)]
    for name in ("hpas", "signals", "changes"):
        assert_frame_equal(*(getattr(one, name) for one in scored), check_exact=True)
    one, other = scored
    assert (one.totals, one.warnings, one.evidence) == (
        other.totals,
        other.warnings,
        other.evidence,
    )


def test_recordings_are_looked_at_by_processes(history: Path) -> None:
    source = open_history(history)
    here, there = quality(source, QualityRequest()), quality(source, QualityRequest(workers=2))
    assert_frame_equal(here, there, check_exact=True)


def test_places_that_cannot_be_written_are_told_before_any_work(
    history: Path, cluster: Cluster, bucket: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(objects, "MAX_RETRIES", 0)
    spread = Spread(scheduler=cluster.address, parts=bucket.replace("bucket", "nowhere"))
    with pytest.raises(UsageError, match=r"s3://nowhere/.* check the name, the credentials and"):
        swept(history, tmp_path / "out", spread)
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:1")
    spread = Spread(scheduler=cluster.address, parts=f"{bucket}/parts")
    with pytest.raises(
        UnfinishedError, match=r"s3://bucket/parts/.* check the name, the credentials a"
    ):
        swept(history, tmp_path / "out", spread)


QUOTA = """
kind: ResourceQuota
metadata: {name: team, namespace: shop}
spec: {hard: {requests.cpu: "3", limits.cpu: "1000"}}
"""


def planned(history: Path, folder: Path, **more: Any) -> tuple[Any, ...]:
    """Plan under two growths, with prices, quotas and limits; return all that is said."""
    (folder / "quota.yaml").write_text(QUOTA)
    (folder / "prices.yaml").write_text("currency: EUR\ncore_hour: 0.03\npod_hour: 0.0123\n")
    request = PlanRequest(
        growth="1.3,0.7",
        quota=(str(folder / "quota.yaml"),),
        prices=str(folder / "prices.yaml"),
        **more,
    )
    source = open_history(history)
    found = plan(source, request)
    hpas, totals = (frame.write_csv() for frame in (found.hpas, found.totals))
    return hpas, totals, found.skipped, found.notes, found.evidence, source.warnings


def test_a_capacity_plan_by_processes(history: Path, tmp_path: Path) -> None:
    assert planned(history, tmp_path, workers=2) == planned(history, tmp_path)
