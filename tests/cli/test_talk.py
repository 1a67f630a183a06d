"""Lines on stderr: HPAs that lack the kind of a metric are one sentence, however many they are."""

from __future__ import annotations

import pytest

from hpabatch.cli.talk import tell_skipped
from hpabatch.engine.fleet.candidates import UNKNOWN_DRIVER, Skipped


def test_hpas_that_lack_an_answer_are_told_together(capsys: pytest.CaptureFixture[str]) -> None:
    asked = [Skipped("c", "shop", f"web-{k}", f"{UNKNOWN_DRIVER}pods/heat: why") for k in range(5)]
    other = Skipped("c", "shop", "lost", "no sample")
    tell_skipped([*asked[:2], other, *asked[2:]], "a history")
    assert capsys.readouterr().err.splitlines() == [
        "skipped: c/shop/lost: no sample",
        "skipped: 5 HPAs (c/shop/web-0, c/shop/web-1, c/shop/web-2, …), as nothing says what "
        "drives a metric; state it: hpabatch fit 'a history' --init-plant plant.yaml",
    ]
