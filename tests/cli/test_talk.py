"""Lines on stderr: HPAs that lack the kind of a metric are one sentence, however many they are."""

from __future__ import annotations

import logging

import pytest

from hpabatch.cli.talk import tell_skipped
from hpabatch.engine.fleet.candidates import UNKNOWN_DRIVER, Skipped
from tests.cli.commands import runner


def test_hpas_that_lack_an_answer_are_told_together(capsys: pytest.CaptureFixture[str]) -> None:
    asked = [Skipped("c", "shop", f"web-{k}", f"{UNKNOWN_DRIVER}pods/heat: why") for k in range(5)]
    other = Skipped("c", "shop", "lost", "no sample")
    tell_skipped([*asked[:2], other, *asked[2:]], "a history")
    assert capsys.readouterr().err.splitlines() == [
        "skipped: c/shop/lost: no sample",
        "skipped: 5 HPAs (c/shop/web-0, c/shop/web-1, c/shop/web-2, …), as nothing says what "
        "drives a metric; state it: hpabatch fit 'a history' --init-plant plant.yaml",
    ]


def test_what_a_worker_says_drives_no_terminal(
    capfdbinary: pytest.CaptureFixture[bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert runner("--version", capfdbinary, monkeypatch)().code == 0
    monkeypatch.setattr(logging.getLogger(), "handlers", [])  # (pytest's own)
    logging.getLogger("hpabatch.jobs").warning("worker 1: %s", "\x1b[31m\nerror: forged")
    assert capfdbinary.readouterr().err == b"worker 1: \\x1b[31m\\nerror: forged\n"
