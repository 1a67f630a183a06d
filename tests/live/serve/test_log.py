"""Lines: of changes only, in JSON with the documented fields, and for people."""

from __future__ import annotations

import io
import json
import os
from dataclasses import replace
from pathlib import Path
from typing import Any, TextIO

from hpabatch.live.passes.result import (
    SIZE_ACCEPTED,
    SIZE_FAILED,
    SIZE_HELD,
    SIZE_VOID,
    SIZE_WAITS,
    SIZE_WRITTEN,
    PassResult,
    Problem,
    Size,
)
from hpabatch.live.passes.shadow import Shadow
from hpabatch.live.serve.log import LineLog, Said, problems_of
from tests.live.made_passes import NO_STATUS, pass_of
from tests.live.metric_catalogue import log_fields

START_S = 1_800_000_000  # 2027-01-15T08:00:00Z


class Loop:
    """Compares passes and tells them, as the loop does."""

    late_ms = 0  # from a pass to its lines

    def __init__(self, as_json: bool = True, compares: bool = True) -> None:
        self.out, self.now_ms = io.StringIO(), START_S * 1000
        self.log = LineLog(
            self.out, "east", as_json=as_json, compares=compares, clock=lambda: self.now_ms
        )
        self.said = Said(self.log)
        self.shadow = Shadow(30_000)

    def turn(self, result: PassResult) -> None:
        self.now_ms = result.now_ms + self.late_ms
        self.log.tell(self.shadow.compare(result))
        self.said.only("hpa", problems_of(result))

    @property
    def wrong(self) -> dict[str, str]:
        return {about: one.newest for about, one in self.said._wrong.items()}

    def lines(self) -> list[str]:
        text = self.out.getvalue()
        self.out.seek(0)
        self.out.truncate()
        return text.splitlines()

    def objects(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.lines()]


def test_a_line_is_written_when_something_changes() -> None:
    loop = Loop()
    loop.turn(pass_of(START_S, [3, 4], [3, NO_STATUS]))
    assert [(o["event"], o["hpa"], o.get("theirs")) for o in loop.objects()] == [
        ("decision", "web-0", 3), ("decision", "web-1", None),
    ]  # fmt: skip
    loop.turn(pass_of(START_S + 15, [3, 4], [3, NO_STATUS]))
    assert loop.lines() == []
    loop.turn(pass_of(START_S + 30, [5, 4], [3, NO_STATUS], current=[3, 4]))
    assert loop.objects() == [
        {
            "ts": "2027-01-15T08:00:30.000Z",
            "event": "decision",
            "cluster": "east",
            "namespace": "shop",
            "hpa": "web-0",
            "target": "Deployment/web-0",
            "current": 3,
            "desired": 5,
            "proposal": 5,
            "theirs": 3,
            "action": "scale_up",
            "error": "none",
            "binding": "metric",
            "since": "2027-01-15T08:00:30.000Z",
            "why": "because of web-0",
        }
    ]
    loop.turn(pass_of(START_S + 45, [5, 4], [3, NO_STATUS]))
    assert loop.lines() == []
    loop.turn(pass_of(START_S + 60, [5, 4], [3, NO_STATUS]))
    (differs,) = loop.objects()
    assert (differs["event"], differs["since"]) == ("differs", "2027-01-15T08:00:30.000Z")
    loop.turn(pass_of(START_S + 75, [5, 4], [5, NO_STATUS]))
    (agrees,) = loop.objects()
    assert (agrees["event"], agrees["theirs"], "since" in agrees) == ("agrees", 5, False)


def sized(result: PassResult, before: int, after: int, outcome: str, text: str = "") -> PassResult:
    """Return a pass of one HPA that decided a size."""
    return replace(result, sizes={0: Size(before, after, outcome, "cpu is high", text)})


def test_a_size_is_told_once_until_its_outcome_changes() -> None:
    held = "not written: the first pass writes nothing"
    steps = [
        (4, (2, 4, SIZE_HELD, held)), (4, (2, 4, SIZE_HELD, "not written: another reason")),
        (2, (2, 4, SIZE_WAITS, "waits: a limit")), (4, (2, 4, SIZE_WRITTEN, "")), (4, None),
        (6, (4, 6, SIZE_FAILED, "forbidden")), (6, (4, 6, SIZE_FAILED, "forbidden")),
        (6, (4, 6, SIZE_VOID, "the size is 5")), (6, (4, 6, SIZE_ACCEPTED, "")),
        (6, (4, 6, SIZE_ACCEPTED, "")),
    ]  # fmt: skip
    for as_json in (False, True):
        loop = Loop(as_json, compares=False)
        for k, (ours, size) in enumerate(steps):
            result = pass_of(START_S + k, [ours], [3], current=[2])
            loop.turn(result if size is None else sized(result, *size))
        if as_json:
            found = [o for o in loop.objects() if o["event"] == "size"]
            assert [(o["current"], o["desired"], o["outcome"]) for o in found] == [
                (2, 4, "held"), (2, 4, "waits"), (2, 4, "written"), (4, 6, "failed"),
                (4, 6, "void"), (4, 6, "accepted"),
            ]  # fmt: skip
            assert (found[0]["text"], found[0]["why"]) == (held, "cpu is high")
        else:
            assert [line.partition(" shop/web-0: ")[2] for line in loop.lines()] == [
                f"wants 2 -> 4 ({held}): cpu is high",
                "wants 2 -> 4 (waits: a limit): cpu is high",
                "written 2 -> 4: cpu is high",
                "fails: 4 -> 6 is not written: forbidden",
                "4 -> 6 is void: the size is 5",
                "dry run: the server accepts 4 -> 6: cpu is high",
            ]


def test_lines_for_people() -> None:
    loop = Loop(as_json=False)
    loop.turn(pass_of(START_S, [3, 4], [3, NO_STATUS], current=[3, 2]))
    assert loop.lines() == [
        "2027-01-15T08:00:00Z shop/web-1: scale up 2 -> 4, theirs nothing: because of web-1"
    ]
    for k in range(1, 4):
        loop.turn(pass_of(START_S + 15 * k, [2, 4], [3, NO_STATUS]))
    assert loop.lines() == [
        "2027-01-15T08:00:15Z shop/web-0: stay at 2, theirs 3: because of web-0",
        "2027-01-15T08:00:45Z shop/web-0: ours 2, theirs 3 since 08:00:15Z: because of web-0",
    ]
    loop.turn(pass_of(START_S + 60, [2, 4], [2, NO_STATUS]))
    assert loop.lines() == ["2027-01-15T08:01:00Z shop/web-0: agrees again at 2"]


def test_lines_for_people_hold_no_control_characters() -> None:
    loop = Loop(as_json=False)
    loop.said.say("watch", "bad \x1b[31m text\nnext")
    assert loop.lines() == ["2027-01-15T08:00:00Z problem: watch: bad \\x1b[31m text\\nnext"]


def test_people_are_not_told_of_thousands_of_changes() -> None:
    for as_json, lines in ((True, 70), (False, 51)):
        loop = Loop(as_json)
        loop.turn(pass_of(START_S, [3] * 70, [3] * 70, current=[2] * 70))
        told = loop.lines()
        assert len(told) == lines
    assert told[-1].endswith("and 20 more changes in this pass (--log-format json tells all)")


def test_what_is_wrong_is_said_when_it_changes() -> None:
    loop = Loop()
    bad = [Problem("shop", "x", "no such rule"), Problem("shop", "y", "huge")]
    loop.turn(pass_of(START_S, [], [], problems=bad))
    assert [(o["event"], o["about"], o["text"]) for o in loop.objects()] == [
        ("problem", "hpa shop/x", "no such rule"), ("problem", "hpa shop/y", "huge"),
    ]  # fmt: skip
    loop.turn(pass_of(START_S + 15, [], [], problems=bad))
    assert loop.lines() == []
    loop.said.say("watch pods", "gone")
    loop.turn(pass_of(START_S + 30, [], [], problems=[Problem("shop", "x", "another")]))
    assert [(o["event"], o["about"], o["text"]) for o in loop.objects()] == [
        ("problem", "watch pods", "gone"),
        ("fine", "hpa shop/y", "huge"),
        ("problem", "hpa shop/x", "another"),
    ]  # fmt: skip
    assert loop.wrong == {
        "watch pods": "gone",
        "hpa shop/x": "another",
    }
    loop.said.fine("watch pods")
    loop.said.fine("watch pods")
    loop.said.fine("never wrong")
    assert [o["event"] for o in loop.objects()] == ["fine"]
    loop.said.say("hpa", "none is known")
    loop.turn(pass_of(START_S + 45, [], []))
    assert [(o["event"], o["about"]) for o in loop.objects()] == [
        ("problem", "hpa"), ("fine", "hpa shop/x"), ("fine", "hpa"),
    ]  # fmt: skip


def test_every_field_is_documented_and_nothing_else_is_written() -> None:
    loop = Loop()
    loop.said.say("watch", "gone")
    for k in range(4):
        loop.turn(pass_of(START_S + 15 * k, [5], [3]))
    loop.turn(sized(pass_of(START_S + 60, [5], [3], current=[4]), 4, 5, SIZE_WAITS, "a limit"))
    assert {field for o in loop.objects() for field in o} == set(log_fields())


def test_what_goes_to_and_fro_is_said_once_in_each_way() -> None:
    loop = Loop()
    for _ in range(5):
        loop.said.only("cluster", {"pods": "refused"})
        loop.said.only("cluster", {"pods": "reset"})
    assert [(o["event"], o["text"]) for o in loop.objects()] == [
        ("problem", "refused"), ("problem", "reset"),
    ]  # fmt: skip
    assert loop.wrong == {"cluster pods": "reset"}
    for number in range(100):
        loop.said.say("cluster pods", f"error {number}")
    assert len(loop.objects()) == 8
    loop.said.only("cluster", {})
    loop.said.only("cluster", {"pods": "refused"})
    assert [(o["event"], o["text"]) for o in loop.objects()] == [
        ("fine", "error 99"), ("problem", "refused"),
    ]  # fmt: skip


def test_what_comes_and_goes_is_not_over() -> None:
    loop = Loop()
    for _ in range(5):
        loop.said.only("cluster", {"pods": "refused"}, 2)
        loop.said.only("cluster", {}, 2)
    assert [o["event"] for o in loop.objects()] == ["problem"]
    loop.said.only("cluster", {}, 2)
    loop.said.only("cluster", {}, 2)
    assert [o["event"] for o in loop.objects()] == ["fine"]


def said_on(stream: TextIO, room: bool) -> LineLog:
    """Say some lines while there is no room, and one after there is."""
    full = os.open("/dev/full", os.O_WRONLY)
    free = os.dup(stream.fileno())
    log = LineLog(stream, "east", as_json=True, clock=lambda: START_S * 1000)
    log.say("note", "first")
    os.dup2(full, stream.fileno())
    for number in range(5):
        log.say("note", f"{number}")
    log.tell(Shadow(30_000).compare(pass_of(START_S, [3, 4], [3, NO_STATUS])))
    if room:
        os.dup2(free, stream.fileno())
        log.say("note", "last")
    log.close()
    return log


def test_a_log_on_a_full_disk_does_not_end_the_loop(tmp_path: Path) -> None:
    path = tmp_path / "log"
    with path.open("w") as stream:
        said_on(stream, room=True)
    texts = [json.loads(line).get("text") for line in path.read_text().splitlines()]
    assert (texts[0], texts[-1]) == ("first", "last")


def test_a_log_that_stays_full_ends_without_a_traceback(tmp_path: Path) -> None:
    with (tmp_path / "log").open("w") as stream:
        said_on(stream, room=False)
    assert "first" in (tmp_path / "log").read_text()
