"""`hpabatch fit` at the command line: data on stdout, talk on stderr, exit codes."""

from __future__ import annotations

import io
import json
from pathlib import Path

import polars as pl
import pytest

from hpabatch.engine.columns.simulate import FIT_FACTS
from hpabatch.errors import UsageError
from tests.cli.commands import invoke
from tests.cli.histories import DEMO, ROOT, last_day, small

SCHEMA = FIT_FACTS.schema
QUEUE = "external/jobs_waiting{queue=thumbnails}"


def run(*arguments: str) -> tuple[int, bytes, str]:
    done = invoke("fit", *arguments)
    return done.exit_code, done.stdout_bytes, done.stderr


@pytest.fixture(scope="module")
def batch() -> tuple[int, bytes, str]:
    """Return what is told of one namespace of the demo."""
    return run(str(last_day()), "--where", "namespace = 'batch'")


def plant_file(folder: Path, text: str) -> str:
    path = folder / "plant.yaml"
    path.write_text(text)
    return str(path)


def test_every_fact_is_explained() -> None:
    text = (ROOT / "docs" / "fit.md").read_text()
    _, stdout, _ = run(str(last_day()), "-o", "csv")
    facts = pl.read_csv(io.BytesIO(stdout), schema=SCHEMA)
    names = {name.rsplit(".", 1)[-1] for name in facts["fact"].unique()}
    assert len(names) > 20
    without = {"problem", "kind", "span", "resolution"}
    assert {name for name in names - without if f"{name}`" not in text} == set()
    for source in facts["source"].unique():
        assert f"| `{source}` |" in text


def test_what_is_stated_makes_a_plant(tmp_path: Path) -> None:
    text = f"""
- hpa: batch/thumbnails
  signals:
    "{QUEUE}": {{kind: backlog, rate: 2/s}}
  pods: {{termination: 12s}}
"""
    where = "hpa = 'thumbnails'"
    code, stdout, stderr = run(
        str(last_day()), "--where", where, "--plant", plant_file(tmp_path, text), "-o", "csv"
    )
    assert code == 0
    assert stderr == ""
    facts = pl.read_csv(io.BytesIO(stdout), schema=SCHEMA)
    known = {row["fact"]: row for row in facts.iter_rows(named=True)}
    assert known[f"signals.{QUEUE}.kind"]["source"] == "given"
    assert known[f"signals.{QUEUE}.rate"]["value"] == 2
    assert known["pods.termination"]["value"] == 12
    assert known["pods.termination"]["source"] == "given"
    assert known["capacity"]["value"] == 2
    assert facts["fact"].is_unique().all()


def test_an_entry_for_nobody_is_refused(tmp_path: Path) -> None:
    path = plant_file(tmp_path, "hpa: other/one\npods: {reaction: 1s}\n")
    with pytest.raises(UsageError, match="other/one matches none"):
        run(str(last_day()), "--plant", path)


def test_facts_without_samples_are_still_told(tmp_path: Path) -> None:
    folder = small(tmp_path / "history")
    samples = pl.read_parquet(folder / "pod_metrics.parquet")
    samples.filter(pl.col("target") != "etl").write_parquet(folder / "pod_metrics.parquet")
    code, stdout, stderr = run(str(folder), "--where", "hpa = 'etl'", "-o", "csv")
    assert code == 0
    facts = pl.read_csv(io.BytesIO(stdout), schema=SCHEMA)
    assert facts["plant"].to_list() == [False] * facts.height
    assert facts.filter(pl.col("fact") == "problem").height == 1
    assert "no plant: batch/etl: no sample of its metrics" in stderr


# ---- open questions ------------------------------------------------------------------------------


def test_questions_become_a_plant_file_that_counts_as_stated(tmp_path: Path) -> None:
    place = tmp_path / "plant.yaml"
    only = ("--where", "hpa IN ('thumbnails', 'recommendations')")
    code, _, stderr = run(str(DEMO), *only, "--init-plant", str(place))
    assert code == 0
    assert f"hpabatch simulate {DEMO} --plant {place}" in stderr
    text = place.read_text()
    (line,) = [line for line in text.splitlines() if QUEUE in line]
    assert line.startswith(f'    "{QUEUE}": {{kind: backlog, rate: ')
    assert "batch/thumbnails: a queue by its name" in line
    shown = next(line for line in text.splitlines() if "pods/requests_per_second" in line)
    assert shown.startswith('# - signals: {"pods/requests_per_second": {kind: divisible}}  # ')
    assert "changes of replicas, elasticity -1." in shown
    _, stdout, _ = run(str(DEMO), *only, "--plant", str(place), "-o", "csv")
    facts = pl.read_csv(io.BytesIO(stdout), schema=SCHEMA)
    kinds = facts.filter(pl.col("fact") == f"signals.{QUEUE}.kind")
    assert kinds.select("source", "note").rows() == [("given", "backlog")]


def test_a_plant_file_is_never_overwritten(tmp_path: Path) -> None:
    place = tmp_path / "plant.yaml"
    place.write_text("answers")
    with pytest.raises(UsageError, match="is there already and may hold answers"):
        run(str(DEMO), "--init-plant", str(place))
    assert place.read_text() == "answers"


def test_a_lens_is_told_and_leaves_the_plant(tmp_path: Path) -> None:
    file = tmp_path / "lens.yaml"
    file.write_text("- {signal: resource/cpu, lag: 30s, smoothing: 2m, scale: 1.25}\n")
    one = (str(last_day()), "etl")
    (_, plain, _), (code, seen, _) = (
        run(*one, *more, "-o", "json") for more in ((), ("--lens", str(file)))
    )
    assert code == 0
    found, raw = json.loads(seen), json.loads(plain)
    assert found["evidence"]["lens"] == "resource/cpu lag 30s, smoothing 2m, scale 1.25"
    assert "lens" not in raw["evidence"]
    facts, others = ({f["name"]: f for f in d["hpas"][0]["facts"]} for d in (found, raw))
    assert facts["signals.resource/cpu.lens.scale"]["value"] == 1.25
    assert facts["signals.resource/cpu.lens.lag"]["source"] == "given"
    assert {n for n in facts if n not in others} == {
        f"signals.resource/cpu.lens.{what}" for what in ("lag", "smoothing", "scale")
    }
    assert all(facts[n] == others[n] for n in others if n != "capacity")
    shown = run(*one, "--lens", str(file))[1].decode()
    assert "lens: resource/cpu lag 30s, smoothing 2m, scale 1.25" in shown
    with pytest.raises(UsageError, match="no-such"):
        run(*one, "--lens", "no-such.yaml")
