"""Requests: what callers may give, what is refused, and how a request is kept."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from hpabatch.errors import UsageError
from hpabatch.model.options import REQUIRED, Request, flag, keyword, option


@dataclass(frozen=True, kw_only=True)
class Shared(Request):
    period_ms: int | None = option("duration", "Time.", minimum=1000)
    where: str | None = option("text", "Condition.")


@dataclass(frozen=True, kw_only=True)
class Own(Shared):
    name: str = option("text", "Name.", REQUIRED, positional=True)
    files: tuple[str, ...] = option("paths", "Files.", ())
    form: str = option("choice", "Form.", "long", values=("long", "short"))
    loud: bool = option("flag", "Loud.", False)
    count: int = option("number", "Count.", 3, minimum=0, maximum=9)
    share: float = option("real", "Share.", 0.5)
    length_ms: int = option("duration", "Length.", 60_000, flag="--for")
    growth: str = option("factors", "Growth.", "1")
    at: str | None = option("time", "When.")


def test_own_options_come_before_shared_ones_and_arguments_first() -> None:
    assert list(Own.options()) == [
        *("name", "files", "form", "loud", "count", "share", "length_ms", "growth", "at"),
        *("period_ms", "where"),
    ]


def test_every_kind_is_read() -> None:
    found = Own.of(
        {
            "name": "api",
            "files": [Path("a"), "b"],
            "form": "short",
            "loud": True,
            "count": 9,
            "share": 1,
            "length": timedelta(minutes=2),
            "growth": [1.0, 1.5],
            "at": datetime(2026, 10, 7, 14, 3, tzinfo=UTC),
            "period": "1m30s",
            "where": None,
        }
    )
    assert found == Own(
        name="api",
        files=("a", "b"),
        form="short",
        loud=True,
        count=9,
        share=1.0,
        length_ms=120_000,
        growth="1.0,1.5",
        at="2026-10-07T14:03:00.000+00:00",
        period_ms=90_000,
    )
    assert Own.from_json(found.to_json()) == found
    assert Own.of({"name": "x", "files": "one"}).files == ("one",)


@pytest.mark.parametrize(
    ("values", "told"),
    [
        ({}, "--name: expected a value, got none"),
        ({"name": 5}, "--name: expected a string, got int 5"),
        ({"nam": "x"}, "unknown option --nam: did you mean --name?"),
        ({"zzz": "x"}, "unknown option --zzz: known: name, files, "),
        ({"form": "shor"}, "--form: expected one of long, short, got 'shor' (did you mean short?)"),
        ({"form": 5}, "--form: expected one of long, short, got 5"),
        ({"loud": 1}, "--loud: expected True or False, got int 1"),
        ({"count": 10}, "--count: expected a whole number of at most 9, got 10"),
        ({"count": True}, "--count: expected a whole number, got bool True"),
        ({"count": 1.5}, "--count: expected a whole number, got float 1.5"),
        ({"share": float("nan")}, "--share: expected a finite number, got nan"),
        ({"period": "10ms"}, "--period: expected a duration of at least 1s, got 10ms"),
        ({"period": 5}, "--period: expected a duration such as '15s' or a timedelta, got int 5"),
        ({"length": timedelta(-1)}, "--length: expected a duration of at least 0s, got -1d"),
        (
            {"length": timedelta(9999)},
            "--length: expected a duration of at most 52w2d",
        ),
        ({"count": 10**400}, "--count: expected a whole number of at most 9, got 1000"),
        ({"length": "5 minutes"}, "--length: expected a duration (whole numbers with w, d, h, m, "),
        ({"files": 5}, "--files: expected paths, one or a list, got int 5"),
        ({"files": [5]}, "--files: expected a path, got int 5"),
        ({"growth": [True]}, "--growth: expected a number or a list of numbers, got bool True"),
        ({"at": 5}, "--at: expected a string, got int 5"),
    ],
)
def test_what_is_refused(values: dict[str, Any], told: str) -> None:
    given = values if "name" in values or not values else {"name": "x"} | values
    with pytest.raises(UsageError) as refused:
        Own.of(given, lambda name: f"--{name}")
    assert told in str(refused.value)


def test_names() -> None:
    options = Own.options()
    assert (keyword("length_ms"), flag("length_ms", options["length_ms"])) == ("length", "--for")
    assert (keyword("where"), flag("period_ms", options["period_ms"])) == ("where", "--period")


def test_grids_and_factors() -> None:
    grids = option("grids", "Grid.", ()).metadata["option"]
    assert grids.read("target=50:85:5", "grid") == ("target=50:85:5",)
    given = {"target": "50:85:5", "max": [1, 2], "min": 3, "tolerance": iter([0.1])}
    assert grids.read(given, "grid") == (*("target=50:85:5", "max=1,2", "min=3", "tolerance=0.1"),)
    factors = option("factors", "Growth.", "1").metadata["option"]
    assert (factors.read("1.4", "growth"), factors.read(1.4, "growth")) == ("1.4", "1.4")


def test_the_sentence_says_what_none_stands_for() -> None:
    asked = option("text", "Version.", unset="as recorded").metadata["option"]
    assert asked.describe() == "Version.  [default: as recorded]"
    assert asked.read(None, "k8s") is None
    assert Own.options()["name"].describe() == "Name."


def test_secrets_are_not_shown() -> None:
    @dataclass(frozen=True, kw_only=True)
    class Login(Request):
        header: tuple[str, ...] = option("texts", "Headers.", (), secret=True)

    assert "s3cr3t" not in repr(Login(header=("Authorization: s3cr3t",)))


def test_a_part_of_a_larger_request_is_a_request() -> None:
    @dataclass(frozen=True, kw_only=True)
    class Larger(Shared):
        more: int = option("number", "More.", 1)

    larger = Larger()
    part = Shared.part_of(larger)
    assert type(part) is Shared
    assert part == Shared()
