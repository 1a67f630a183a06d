"""Durations, conditions and places, as the command line reads them."""

from __future__ import annotations

import json
import os
from datetime import UTC, datetime, timedelta
from pathlib import Path

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hpabatch.cli.arguments import check_out, parse_at, parse_duration, selection
from hpabatch.engine.fleet.candidates import candidate_frame
from hpabatch.errors import UsageError
from hpabatch.history.reader import History, open_history
from hpabatch.jobs.parquet import EVIDENCE_KEY
from tests.cli.histories import small


@pytest.mark.parametrize(
    ("text", "ms"),
    [("0s", 0), ("500ms", 500), ("15s", 15_000), ("1m", 60_000), ("2h", 7_200_000)],
)
def test_durations(text: str, ms: int) -> None:
    assert parse_duration(text, "--delay") == ms


@pytest.mark.parametrize(
    "text", ["", "15", "s", "1.5s", "-1s", " 1s", "1s ", "1m30s", "1S", "1w", "٣s", "1e3s", "\n1s"]
)
def test_what_is_no_duration(text: str) -> None:
    with pytest.raises(UsageError, match=r"^--delay .* is not a duration: .* such as 15s$"):
        parse_duration(text, "--delay")


def test_durations_have_bounds() -> None:
    with pytest.raises(UsageError, match="--sync-period 999ms is too short: at least 1s"):
        parse_duration("999ms", "--sync-period", 1000)
    with pytest.raises(UsageError, match="--max-age 0s is too short: at least 1ms"):
        parse_duration("0s", "--max-age", 1)
    with pytest.raises(UsageError, match="--delay 9999h is too long"):
        parse_duration("9999h", "--delay")


# ---- instants ------------------------------------------------------------------------------------

NOON = 1_791_331_200_000 + 12 * 3_600_000  # 2026-10-07T12:00:00Z


@pytest.mark.parametrize(
    ("text", "ms"),
    [
        ("2026-10-07", NOON - 12 * 3_600_000),
        ("2026-10-07+02:00", NOON - 14 * 3_600_000),
        ("2026-10-07 12:00", NOON),
        ("2026-10-07T12:00", NOON),
        ("2026-10-07t12:00z", NOON),
        ("2026-10-07 9:05", NOON - 175 * 60_000),
        ("  2026-10-07 12:00:01 ", NOON + 1000),
        ("2026-10-07 12:00:00.5", NOON + 500),
        ("2026-10-07T12:00:00.007Z", NOON + 7),
        ("2026-10-07T14:00:00+02:00", NOON),
        ("2026-10-07 04:30 -07:30", NOON),
        ("2026-10-07 12:00 Z", NOON),
        ("1969-12-31 23:59:59.999", -1),
        ("9999-12-31 23:59:59", 253_402_300_799_000),
    ],
)
def test_instants(text: str, ms: int) -> None:
    assert parse_at(text) == ms


@pytest.mark.parametrize(
    "text",
    [
        "", "now", "14:03", "2026-10", "2026-10-7", "7.10.2026", "2026-10-07 14", "2026-10-07T",
        "2026-10-07 14:03:1", "2026-10-07 14:03:00.1234", "2026-10-07 14:03 +2", "1791374580",
        "2026-10-07 14:03 UTC", "2026-10-07 14:03 Europe/Berlin", "20261007T1403Z", "-1-10-07",
        "٢٠٢٦-10-07", "2026-10-07\n14:03", "2026-10-07 14:03+0200", "2026-10-07 14:03:00,5",
    ],
)  # fmt: skip
def test_what_is_no_instant(text: str) -> None:
    with pytest.raises(UsageError) as refused:
        parse_at(text)
    assert str(refused.value) == (
        f"--at {text}: not an instant such as '2026-10-07 14:03' (UTC) or 2026-10-07T14:03:00+02:00"
    )


@pytest.mark.parametrize(
    "text",
    [
        "2026-02-29", "2026-13-01", "2026-10-00", "0000-01-01", "2026-10-07 24:61",
        "2026-10-07 14:60", "2026-10-07 14:03:60", "2026-10-07 14:03 +24:00",
    ],
)  # fmt: skip
def test_instants_that_no_calendar_has(text: str) -> None:
    with pytest.raises(UsageError, match=r"^--until .*is no instant of any calendar: "):
        parse_at(text, "--until")


@given(st.datetimes(min_value=datetime(1, 1, 2), max_value=datetime(9999, 12, 30)), st.booleans())
def test_any_instant_in_any_of_its_forms(when: datetime, with_zone: bool) -> None:
    when = when.replace(microsecond=when.microsecond // 1000 * 1000, tzinfo=UTC)
    ms = (when - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(milliseconds=1)
    text = when.isoformat(" ", "milliseconds")
    assert parse_at(text) == ms
    assert parse_at(text.removesuffix("+00:00").replace(" ", "T") + "Z" * with_zone) == ms


@given(st.text(max_size=12) | st.from_regex(r"[0-9]{4}-[0-9]{2}-[0-9]{2}[T ]?[0-9:.]{0,9}Z?"))
def test_any_text_is_an_instant_or_refused(text: str) -> None:
    try:
        ms = parse_at(text)
    except UsageError:
        return
    assert abs(ms) < 10**15


CANDIDATES = pl.DataFrame(
    {
        "cluster": ["eu", "us", "cluster"],
        "namespace": ["shop", "shop", "pay"],
        "hpa": ["cart", "api", "cart"],
        "max_replicas": [5, 10, 20],
        "min_replicas": [1, None, 2],
        "labels": ['{"app":"cart"}', "{}", "{}"],
        "row": [0, 1, 2],
    }
)


@pytest.mark.parametrize(
    ("where", "rows"),
    [
        ("namespace = 'shop'", [0, 1]),
        ("namespace = 'shop' AND max_replicas > 5", [1]),
        ("hpa LIKE 'c%'", [0, 2]),
        ('labels LIKE \'%"app":"cart"%\'', [0]),
        ("min_replicas IS NULL OR min_replicas = 2", [1, 2]),
        ("NOT max_replicas BETWEEN 6 AND 12", [0, 2]),
        # A word of SQL, though a column's name, in any case.
        ("cluster = 'us'", [1]),
        ("Cluster<>'eu' AND\nNOT (cluster IN ('cluster', 'cluster us'))", [1]),
        ("\"cluster\" = 'cluster'", [2]),
        ("hpa = 'it''s cluster' OR cluster = 'eu'", [0]),
    ],
)
def test_conditions(where: str, rows: list[int]) -> None:
    assert selection(where)(CANDIDATES)["row"].to_list() == rows


@pytest.mark.parametrize(
    ("where", "why"),
    [
        ("namespce = 'shop'", "unknown column 'namespce' at character 1; did you mean namespace?"),
        ("namespace = ", "expected a value, got the end at character 13"),
        ("", "expected a value, got the end at character 1"),
        ("max_replicas", "expected a condition, got a value of type INTEGER"),
        ("'shop'", "expected a condition, got a value of type TEXT"),
        ("namespace > 5", "cannot compare a string with a number at character 11"),
        ("namespace = 'shop'; DROP TABLE hpas", "expected one expression, got ';' at character 19"),
    ],
)
def test_what_is_no_condition(where: str, why: str) -> None:
    with pytest.raises(UsageError) as refused:
        selection(where)
    message = str(refused.value)
    assert message.startswith(f"--where {where!r}: ")
    assert why in message
    assert "give a condition on cluster, namespace, hpa, target_kind" in message
    assert "\n" not in message


def test_a_condition_that_fails_on_the_data() -> None:
    with pytest.raises(UsageError, match="--where 'CAST\\(hpa AS INT\\) = 1': conversion"):
        selection("CAST(hpa AS INT) = 1")(CANDIDATES)


def test_a_condition_must_leave_something() -> None:
    with pytest.raises(UsageError, match="is true for none of 3 HPAs; widen it"):
        selection("namespace = 'none'")(CANDIDATES)
    assert selection("namespace = 'none'")(candidate_frame([])).is_empty()


@pytest.fixture
def history(tmp_path: Path) -> History:
    folder = small(tmp_path / "pods", minutes=1)  # the folder's name is a table's on purpose
    parts = folder / "scales"
    parts.mkdir()
    (folder / "scales.parquet").rename(parts / "0.parquet")
    return open_history(folder)


def test_a_file_or_a_folder(history: History, tmp_path: Path) -> None:
    assert not check_out(tmp_path / "d.parquet", history, ()).is_folder
    assert not check_out("d", history, ()).is_folder
    assert check_out(f"{tmp_path}/d/", history, ()).is_folder
    (tmp_path / "empty").mkdir()
    assert check_out(f"{tmp_path}/empty/", history, ()).is_folder
    ours = tmp_path / "ours"
    ours.mkdir()
    (ours / "part-00000.parquet").touch()
    names = {EVIDENCE_KEY: {}, "parts": ["part-00000.parquet"]}
    (ours / "evidence.json").write_text(json.dumps(names))
    for out in (ours, f"{ours}/"):
        found = check_out(out, history, ())
        assert (found.is_folder, found.path, found.job_path) == (
            True,
            ours,
            tmp_path / ".ours.job",
        )
    (ours / "notes.txt").touch()
    for out in (ours, f"{ours}/", tmp_path / "empty", f"{tmp_path}/pods/"):
        with pytest.raises(UsageError, match="is a folder; name a file in it, or a new folder"):
            check_out(out, history, ())
    (tmp_path / "file").touch()
    with pytest.raises(UsageError, match="file/ is a file; name it without / at its end"):
        check_out(f"{tmp_path}/file/", history, ())


def test_a_link_is_replaced_not_followed(history: History, tmp_path: Path) -> None:
    (tmp_path / "far").mkdir()
    (tmp_path / "link.parquet").symlink_to("far/d.parquet")
    (tmp_path / "far" / "here").symlink_to("..")
    found = check_out(tmp_path / "link.parquet", history, ())
    assert found.job_path == tmp_path / ".link.parquet.job"
    found = check_out(tmp_path / "far" / "here" / "d.parquet", history, ())
    assert found.job_path == tmp_path / ".d.parquet.job"


def test_places_to_write_to(history: History, tmp_path: Path) -> None:
    (tmp_path / "old.parquet").touch()
    (tmp_path / "link.parquet").symlink_to("old.parquet")
    (tmp_path / "loop").symlink_to("loop")
    for name in (
        "loop",
        "new.parquet",
        "old.parquet",
        "link.parquet",
        "a/b/c.parquet",
        "pods/d.parquet",
    ):
        check_out(tmp_path / name, history, ())


@pytest.mark.parametrize(
    ("name", "why"),
    [
        (".", "is a folder; name a file in it"),
        ("pods/scales/", "is a folder; name a file in it"),
        ("pods/scales/x/", "is in the input table scales"),
        ("pods/hpa_status/x/y.parquet", "would be a table of the history"),
        ("pods/_log/x.parquet", "would be a table of the history"),
        ("pods/hpas.parquet", "is in the input table hpas"),
        ("link", "is in the input table hpas"),
        ("pods/scales/0.parquet", "is in the input table scales"),
        ("pods/scales/1.parquet", "is in the input table scales"),
        ("pods/hpa_status.parquet", "would be a table of the history"),
        ("pods/hpa_status", "would be a table of the history"),
        ("file/x.parquet", "cannot be written: Not a directory"),
        ("x" * 300, "cannot be written: File name too long"),
        ("x" * 250, "cannot be written: File name too long"),
        ("manifest.yaml", "is an input of --hpas"),
        ("/dev/null", "is not a regular file"),
        ("/proc/x.parquet", "cannot be written"),
    ],
)
def test_places_not_to_write_to(history: History, tmp_path: Path, name: str, why: str) -> None:
    (tmp_path / "file").touch()
    (tmp_path / "link").symlink_to("pods/hpas.parquet")
    with pytest.raises(UsageError) as refused:
        check_out(os.path.join(tmp_path, name), history, [str(tmp_path / "manifest.yaml")])
    assert str(refused.value).startswith(f"--out {os.path.join(tmp_path, name)} ")
    assert why in str(refused.value)


def test_the_decisions_do_not_go_to_stdout(history: History) -> None:
    with pytest.raises(UsageError, match="--out -: the decisions go to a file"):
        check_out(Path("-"), history, ())
    with pytest.raises(UsageError, match="--out s3://a/b: the decisions go to a local file"):
        check_out("s3://a/b", history, ())
