"""The page: equal bytes, exact lines, safe data, names replaced, advice with its way back."""

from __future__ import annotations

import hashlib
import json
import re
import shlex
from collections.abc import Sequence
from datetime import UTC, datetime
from importlib.resources import files
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import polars as pl
import pytest
import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import hpabatch
from hpabatch.errors import UsageError
from hpabatch.history.schema import empty_frame
from hpabatch.jobs.parquet import write_parquet
from hpabatch.model.printable import printable
from hpabatch.model.settings.patch import apply_patch
from hpabatch.report.forms import markdown_text
from hpabatch.report.page import series
from hpabatch.report.page.advice import read_advice
from hpabatch.report.page.document import held_at_max
from hpabatch.report.page.html import VEGA_SHA256, json_element
from hpabatch.report.page.last import compared
from hpabatch.report.page.result import FleetReport
from hpabatch.report.page.series import LINES, MOMENT, FleetSizes, moments_of, timeline_of
from tests.cli import hostile
from tests.cli.histories import edit, edit_spec, small
from tests.engine.swept import cut
from tests.report import results
from tests.report.page.pages import advice, embedded, trajectories
from tests.sweeps import SPEC


@pytest.fixture(scope="module")
def history(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return small(tmp_path_factory.mktemp("page") / "history", "shop", minutes=90)


@pytest.fixture(scope="module")
def decisions(history: Path) -> list[pl.DataFrame]:
    replay = hpabatch.open(history).replay()
    return replay.decisions.partition_by("hpa", maintain_order=True)


@pytest.fixture(scope="module")
def page(history: Path, tmp_path_factory: pytest.TempPathFactory) -> FleetReport:
    place = advice(tmp_path_factory.mktemp("advice") / "a", "checkout", "elsewhere")
    return hpabatch.open(history).report(advice=place)


def test_equal_histories_give_equal_bytes(history: Path) -> None:
    pages = [hpabatch.open(history).report().html for _ in range(2)]
    assert pages[0] == pages[1]
    assert "http://" not in pages[0].split("<script>")[0]


def stepped(line: dict[str, Any], offsets: Any) -> list[int | None]:
    """Return the value of a line at each offset."""
    at, values = line["values"][::2], line["values"][1::2]
    return [values[k] for k in np.searchsorted(at, offsets, side="right") - 1]


def test_lines_are_exactly_the_decisions(
    decisions: list[pl.DataFrame], monkeypatch: pytest.MonkeyPatch
) -> None:
    for ticks in decisions:
        found = timeline_of(ticks)
        ms = ticks["ts"].to_physical().to_numpy()
        offsets = (ms - found["from_ms"]) // found["unit_ms"]
        for name, line in found["lines"].items():
            assert stepped(line, offsets) == ticks[name].to_list(), name
        assert {name for name in LINES if ticks[name].null_count() < ticks.height} == {
            *found["lines"]
        }
        monkeypatch.setattr(series, "MOST_STEPS", 1)
        monkeypatch.setattr(series, "COLUMNS", 10)
        for name, line in timeline_of(ticks)["lines"].items():
            if not line.get("columns"):
                continue
            at, low, high = (line["values"][k::3] for k in range(3))
            place = np.searchsorted(at, offsets, side="right") - 1
            for column in range(len(at)):
                inside = ticks[name].filter(pl.Series(place == column))
                assert (inside.min(), inside.max()) == (low[column], high[column])
        monkeypatch.undo()


def test_advice_has_the_sizes_before_and_after(history: Path, tmp_path: Path) -> None:
    place = advice(tmp_path / "advice", "checkout", "frontend")
    trajectories(
        place,
        checkout={"today": [(0, 4), (600, 4), (900, 6)], "x": [(0, 4), (930, 5)]},
        frontend={"today": [(0, 4)]},
    )
    page = hpabatch.open(history).report(advice=place)
    simulated = {item["key"][2]: item["simulated"] for item in page.told["advice"]}
    unit = simulated["checkout"]["unit_ms"]
    lines = simulated["checkout"]["lines"]
    seconds = [int(at) * 1000 // unit for at in (900, 930)]
    assert lines["today"]["values"] == [0, 4, seconds[0], 6]
    assert lines["recommended"]["values"] == [0, 4, seconds[1], 5]
    assert simulated["frontend"] is None
    (place / "trajectories.parquet").write_bytes(b"PAR1")
    with pytest.raises(UsageError, match=r"trajectories\.parquet cannot be read"):
        hpabatch.open(history).report(advice=place)


def test_each_hpa_has_its_own_timeline(page: FleetReport, decisions: list[pl.DataFrame]) -> None:
    own = {ticks["hpa"][0]: timeline_of(ticks) for ticks in decisions}
    for hpa, timeline in zip(page.told["hpas"], page.told["timelines"], strict=True):
        assert timeline == own[hpa["key"][2]]


def test_moments_are_the_recorded_rescales_and_what_lasts(decisions: list[pl.DataFrame]) -> None:
    for ticks in decisions:
        rows, count = moments_of(ticks, 1000)
        moments = [dict(zip(MOMENT, row, strict=True)) for row in rows]
        assert count == len(moments)
        changed = ticks.filter(pl.col("applied") != pl.col("replicas"))
        rescales = [m for m in moments if m["kind"] == "rescale"]
        assert [(m["replicas"], m["applied"], m["binding"]) for m in reversed(rescales)] == list(
            changed.select("replicas", "applied", pl.col("binding").cast(pl.String)).iter_rows()
        )
        for m in moments:
            if m["kind"] == "hold":
                begin, end = (datetime.fromisoformat(m[part]) for part in ("ts", "until"))
                between = ticks.filter(pl.col("ts").is_between(begin, end, "left"))
                assert (end - begin).total_seconds() >= 3600
                assert between["binding"].n_unique() == 1
        assert len(moments_of(ticks, 2)[0]) == min(2, count)


@pytest.mark.parametrize("minutes", [59, 60, 61])
def test_a_hold_of_an_hour_is_a_moment_and_room_is_used(
    decisions: list[pl.DataFrame], minutes: int
) -> None:
    ticks = decisions[0].head(4 * minutes + 80)
    held = pl.int_range(pl.len()).is_between(40, 40 + 4 * minutes, "left")
    binding = pl.when(held).then(pl.lit("max")).otherwise(pl.lit("tolerance"))
    ticks = ticks.with_columns(
        binding=binding.cast(ticks.schema["binding"]), applied=pl.lit(3), replicas=pl.lit(3)
    )
    (*rows,), count = moments_of(ticks, 1)
    assert count == len(rows) == (minutes >= 60)
    changes = [k % 10 == 0 for k in range(ticks.height)]
    busy = ticks.with_columns(applied=pl.Series([3 + change for change in changes], dtype=pl.Int64))
    rows, count = moments_of(busy, 8)
    assert (len(rows), count) == (8, sum(changes) + (minutes >= 60))


@pytest.mark.parametrize("minutes", [0.25, 10, 60, 600])
def test_the_fleet_has_a_size_between_ticks_and_none_after_its_end(
    decisions: list[pl.DataFrame], minutes: float
) -> None:
    ticks = decisions[0].head(int(4 * minutes)).with_columns(applied=pl.lit(3))
    first, last = (ticks["ts"].to_physical()[k] for k in (0, -1))
    fleet = FleetSizes(first, last + 15_000, 15_000)
    for _ in range(2):
        fleet.add(ticks)
    told = fleet.told()
    assert set(told["values"]) == {6.0}
    assert len(told["values"]) == min(ticks.height, FleetSizes.INTERVALS)
    longer = FleetSizes(first, last + 15_000 + 600_000, 15_000)
    longer.add(ticks)
    mean = sum(longer.told()["values"]) * longer.told()["width_ms"]
    assert mean == pytest.approx(3 * ticks.height * 15_000, rel=1e-3)


@given(st.recursive(st.text() | st.integers(), lambda part: st.dictionaries(st.text(), part)))
def test_no_data_end_their_element(value: object) -> None:
    for text in (value, {"</script>": "<!--<script>\u2028\u202e"}):
        shown = str(json_element(text))
        assert not set("<\u2028\u202e\n") & set(shown)
        assert json.loads(shown) == text


def test_the_script_of_charts_is_the_one_that_was_looked_at() -> None:
    assets = files("hpabatch.report.page") / "assets"
    data = (assets / "vega.js").read_bytes()
    assert hashlib.sha256(data).hexdigest() == VEGA_SHA256
    assert b"</script" not in data
    assert "BSD-3-Clause" in (assets / "LICENSES.txt").read_text()


def test_the_page_embeds_all_of_the_document(page: FleetReport, tmp_path: Path) -> None:
    document = json.loads(json.dumps(page.document()))
    html = page.html
    parts = ("timelines", "moments")
    found = embedded(html, "data") | {
        name: [embedded(html, f"{name}-{k}") for k in range(len(document["hpas"]))]
        for name in parts
    }
    assert found == document
    page.write(tmp_path / "report.html")
    assert (tmp_path / "report.html").read_text() == html


TARGETS = ("media/uploader", "batch/render", "payments/webhooks")
WORDS = (
    *("max", "min", "hold", "high", "hpa1", "namespace1", "report", "metric", "replicas", "cpu"),
    *("explain", "redact", "pods", "left", "out", "none", "recorded", "data", "k8s", "up", "app"),
)


def renamed(folder: Path, words: Sequence[str]) -> FleetReport:
    """Return the redacted page of a fleet whose names are words, in the order of the old ones."""
    olds: set[str] = set()

    def remembered(name: str) -> str:
        olds.add(name)
        return name

    hostile.history(folder / "old", remembered, *TARGETS, strict=True)
    named = sorted(name for name in olds if name.isalpha() or "_" in name)  # (pods have numbers)
    others = (f"zz{'y' * 30}{k:03}" for k in range(len(named)))
    new = dict(zip(named, sorted([*words, *others][: len(named)]), strict=True))
    found = hostile.history(folder / "new", lambda n: new.get(n, n), *TARGETS, strict=True)
    # (its max age names a cluster)
    row: dict[str, Any] = {
        "cluster": "zzyyystanding",
        "subject": "pod_metrics",
        "method": "recorder",
    }
    row |= {"valid_from": datetime(2026, 9, 17, tzinfo=UTC), "namespace": "", "name": ""}
    file = found / "provenance.parquet"
    pl.DataFrame([row], empty_frame("provenance").schema).write_parquet(file)
    where = f"hpa <> '{new['render']}x'"
    requests = [f"{new['batch']}/{new['render']}=500m"]
    return hpabatch.open(found).report(redact=True, where=where, requests=requests)


def texts(page: FleetReport) -> list[str]:
    """Return a page in all its forms, without the script of charts, in small letters."""
    html = re.sub("<script>.*?</script>", "", page.html, flags=re.DOTALL)
    return [html.lower(), json.dumps(page.told).lower(), markdown_text(page).lower()]


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> FleetReport:
    return renamed(tmp_path_factory.mktemp("plain"), [])


@settings(max_examples=4, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    st.lists(
        st.sampled_from(WORDS) | st.from_regex("[a-z]([-a-z0-9]{0,30}[a-z0-9])?", fullmatch=True),
        min_size=20,
        max_size=40,
        unique=True,
    )
)
def test_a_redacted_page_does_not_depend_on_names(plain: FleetReport, words: list[str]) -> None:
    with TemporaryDirectory() as folder:
        page = renamed(Path(folder), words)
    told, other = (json.loads(json.dumps(one.told)) for one in (page, plain))
    for one in (told, other):  # digests are of files with other names
        evidence = one["provenance"]["evidence"]
        for name in [name for name in evidence if name.startswith("sha256:")]:
            del evidence[name]
    assert told == other
    assert len(told["hpas"]) == 6


def test_a_redacted_page_has_no_name(plain: FleetReport, history: Path, tmp_path: Path) -> None:
    for text in texts(plain):
        assert not [name for name in ("zzyyy", "webhooks", "plain0") if name in text]
    place = advice(tmp_path / "their-advice", "checkout", "elsewhere")
    recording = hpabatch.open(history)
    whole = recording.report(advice=place)
    page = recording.report(advice=place, redact=True)
    names = {*recording.hpas["hpa"], "shop/", "elsewhere", "their-advice", str(history), "demo"}
    for text in texts(page):
        assert not [name for name in names - {"search"} if name in text]
    assert page.told["amounts"] == whole.told["amounts"]
    kept = ("applied_mean", "agreement_share", "recorded_changes", "findings", "answer")
    for one, other in zip(page.told["hpas"], whole.told["hpas"], strict=True):
        assert [one[name] for name in kept] == [other[name] for name in kept]
    assert page.told["timelines"] == whole.told["timelines"]


def test_of_hpas_on_the_same_pods_the_first_is_told(tmp_path: Path) -> None:
    found = cut(tmp_path / "h", "platform/audit", "platform/audit-memory", hours=1)
    lists = hpabatch.open(found).report().told["lists"]
    assert [item["hpa"] for item in lists["act"]] == ["platform/audit"]
    assert lists["ask"] == []


def test_what_a_spec_alone_shows_is_no_harm_of_today(tmp_path: Path) -> None:
    found = small(tmp_path / "h", "shop", minutes=30)
    policy = {"type": "Pods", "value": 1, "periodSeconds": 1800}
    edit_spec(found, "checkout", behavior={"scaleUp": {"policies": [policy]}})
    told = hpabatch.open(found).report().told
    assert [i["group"] for i in told["findings"] if i["finding"] == "slow_up"] == ["harm"]
    assert not [item for item in told["lists"]["harm"] if item["hpa"] == "shop/checkout"]
    assert [item for item in told["lists"]["ask"] if item["hpa"] == "shop/checkout"]


def test_what_is_ignored_now_is_not_fixed(page: FleetReport) -> None:
    first, *others = page.told["findings"]
    ignored = [{"key": first["key"], "finding": first["finding"]}]
    now = {**page.told, "findings": others, "ignored": ignored}
    since = compared(now, page.told)
    assert (since["fixed"], since["ignored"]) == ([], [first])
    shown = FleetReport({**now, "since": since})
    assert "0 fixed, 1 ignored now" in markdown_text(shown)
    assert "Ignored now, so not in these lists: 1" in shown.html
    assert compared({**now, "ignored": []}, page.told)["fixed"] == [first]


def test_advice_comes_with_what_applies_it_and_what_takes_it_back(page: FleetReport) -> None:
    (item,) = page.told["advice"]
    assert (item["hpa"], item["answer"]) == ("shop/checkout", "change")
    patch = json.loads(shlex.split(item["apply"])[-1])
    assert yaml.safe_load(item["patch"]) == patch
    back = json.loads(shlex.split(item["rollback"])[-1])
    today = {"minReplicas": 2} | SPEC
    there_and_back = apply_patch(apply_patch(today, patch["spec"]), back["spec"])
    assert there_and_back == today != apply_patch(today, patch["spec"])
    first = page.told["lists"]["act"][0]
    assert (first["hpa"], first["effect"]) == ("shop/checkout", "20.0% less pod-hours")
    assert item["recorded"] == {"saturated_minutes": 1.0}, "where the model says 0"
    assert any("1 HPA more" in warning for warning in page.told["provenance"]["warnings"])
    pods = next(a for a in page.told["amounts"] if a["name"] == "replicas on average")
    assert pods["high"] == pytest.approx(0.8 * pods["now"])


@pytest.mark.parametrize("text", ["{", "[]", "{}", '{"kind": "hpabatch recommendation"}', None])
def test_advice_that_cannot_be_read_is_refused(tmp_path: Path, text: str | None) -> None:
    if text is not None:
        (tmp_path / "shop.api.json").write_text(text)
    with pytest.raises(UsageError, match="--advice"):
        read_advice(str(tmp_path), {}, 0)


def test_a_damaged_certificate_is_refused(tmp_path: Path) -> None:
    file = advice(tmp_path, "api") / "patches" / "shop.api.json"
    told = json.loads(file.read_text())
    for name in ("spec", "judging", "parameters", "doubts"):
        file.write_text(json.dumps(told | {name: 1}))
        with pytest.raises(UsageError, match=r"shop\.api\.json is damaged; write the advice again"):
            read_advice(str(tmp_path), {}, 0)


def test_advice_is_of_this_history_and_counts_once(history: Path, tmp_path: Path) -> None:
    place = advice(tmp_path / "advice", "checkout")
    file = place / "patches" / "shop.checkout.json"
    told = json.loads(file.read_text())
    (place / file.name).write_text(file.read_text())
    own = hpabatch.open(history).history.digests()
    first, second, *_ = own
    evidence = told["evidence"]

    def stated(**digests: str) -> FleetReport:
        facts = {f"sha256:{table}": digest for table, digest in digests.items()}
        for one in (file, place / file.name):
            one.write_text(json.dumps(told | {"evidence": evidence | facts}))
        return hpabatch.open(history).report(advice=place)

    for one in (stated(), stated(**own)):
        assert len(one.told["advice"]) == 1
        assert not [w for w in one.told["provenance"]["warnings"] if "--advice" in w]
    (warning,) = stated(**own | {first: "x"}).told["provenance"]["warnings"][-1:]
    assert warning.startswith(f"--advice is of another state of the history: {first} changed")
    with pytest.raises(UsageError, match="of another history: not one table is the same"):
        stated(**{first: "x", second: "y"})
    stated()
    (place / file.name).write_text(json.dumps(told | {"answer": "keep"}))
    with pytest.raises(UsageError, match="are of the same HPA"):
        hpabatch.open(history).report(advice=place)


def test_hpas_are_told_apart_by_their_key(tmp_path: Path) -> None:
    found = hostile.history(tmp_path / "h", str)
    edit(found, "hpas", spec=pl.when(pl.col("cluster") == "other").then(
        pl.col("spec").str.replace('"maxReplicas": ?[0-9]+', '"maxReplicas":0')
    ).otherwise("spec"))  # fmt: skip
    page = hpabatch.open(found).report(advice=advice(tmp_path / "a", "checkout"))
    labels = [item["hpa"] for part in page.told["lists"].values() for item in part]
    assert {"demo/shop/checkout", "other/shop/checkout"} <= set(labels)
    by_key = {tuple(hpa["key"]): hpa["answer"] for hpa in page.told["hpas"]}
    assert by_key["demo", "shop", "checkout"] == "change"
    assert {key[0] for key in by_key} == {"demo"}


def test_an_hpa_stands_once_per_list_with_one_remedy(tmp_path: Path) -> None:
    """What the recommendation does not change is under it; those without a plant are asked for."""
    found = small(tmp_path / "h", "shop", 90)
    edit_spec(found, "checkout", minReplicas=2, maxReplicas=2)
    place = advice(tmp_path / "a", "checkout", skipped={"frontend": "state its kind"})
    told = hpabatch.open(found).report(advice=place).told
    for name, entries in told["lists"].items():
        labels = [item["hpa"] for item in entries]
        assert len(labels) == len(set(labels)), name
    act = told["lists"]["act"][0]
    assert (act["hpa"], act["effect"]) == ("shop/checkout", "20.0% less pod-hours")
    assert act["detail"].endswith("; also: minReplicas = maxReplicas = 2: it can never act")
    harm = next(item for item in told["lists"]["harm"] if item["hpa"] == "shop/checkout")
    assert harm["effect"].endswith("h of 1.5 hours at the limit")
    assert harm["detail"] == "recommended: target utilization 60 -> 70"
    (ask,) = (item for item in told["lists"]["ask"] if item["hpa"] == "shop/frontend")
    assert ask["what"] == "no advice: state its kind"
    hpas = len(told["hpas"])
    assert "; 1 of 2 HPAs should change" in told["verdict"]
    pods = next(a for a in told["amounts"] if a["name"] == "replicas on average")
    assert pods["covers"] == f"1 of {hpas} HPAs"
    savings = next(claim for claim in told["trust"] if claim["claim"] == "savings")
    assert "Of as few as 4 training blocks resamples are few different ones" in savings["why"]
    times = next(claim for claim in told["trust"] if claim["claim"].startswith("times"))
    assert "max age 150 s (estimated)" in times["why"]


def test_more_replicas_are_no_remedy_for_memory_that_pods_do_not_share() -> None:
    facts = {"asked_at_max": 9, "bound_max": 5, "at_max_share": 0.25, "hours": 504.0}
    memory = {"metric": "memory resource utilization (percentage of request)"}
    assert held_at_max(facts | memory) == "42.0 h a week at the limit"


def test_a_week_is_told_of_weeks_alone() -> None:
    facts = {"asked_at_max": 9, "bound_max": 5, "at_max_share": 0.25}
    assert held_at_max(facts | {"hours": 504.0}).startswith(
        "42.0 h a week at the limit; maxReplicas 9 costs at most 168 replica-hours a week"
    )
    assert held_at_max(facts | {"hours": 24.0}).startswith(
        "6.0 h of 24 hours at the limit; maxReplicas 9 costs at most 24 replica-hours of 24 hours"
    )


def test_a_capacity_plan_is_shown_and_redacted(history: Path, tmp_path: Path) -> None:
    planned = results.plan()
    recording = hpabatch.open(history)

    def page(redact: bool = False) -> FleetReport:
        for name in ("hpas", "totals"):
            place = tmp_path / f"{name}.parquet"
            write_parquet(getattr(planned, name), planned.evidence | evidence, place)
        return recording.report(plan=tmp_path, redact=redact)

    evidence = {f"sha256:{table}": digest for table, digest in recording.history.digests().items()}
    told = page().told
    held = planned.hpas.filter(pl.col("growth") == 1.0)
    assert [row["limit"] for row in told["plan_sizes"]] == [4] * held.height
    assert {row["max"] for row in told["plan_sizes"]} == {*held["desired_max"]}
    names = {printable(f"{row['namespace']}/{row['hpa']}") for row in held.to_dicts()}
    assert {row["hpa"] for row in told["plan_sizes"]} == names
    other = page(redact=True).told
    assert not [
        name for name in ("shop", "jobs", "[2j", "team") if name in json.dumps(other).lower()
    ]
    for one in (told, other):
        for part in one["plan"]:
            part["rows"] = sorted(row[1:] for row in part["rows"])
    assert [part["rows"] for part in told["plan"]] == [part["rows"] for part in other["plan"]]
    evidence = dict.fromkeys(evidence, "x")
    with pytest.raises(UsageError, match="is of another history: not one table"):
        page()
