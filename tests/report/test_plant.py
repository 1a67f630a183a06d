"""Plant files of open questions: one line a metric, read back as they stand."""

from __future__ import annotations

from pathlib import Path

import pytest

from hpabatch.engine.fit.kinds import Question
from hpabatch.engine.fit.run import Fitted, FleetFit
from hpabatch.engine.fit.workload import FITTED, GUESSED, NOT_IDENTIFIED, OPEN, RECORDED, Fact
from hpabatch.inputs.plants import PlantOverride, read_plant_file
from hpabatch.model.plant import BACKLOG, DIVISIBLE, TOTAL
from hpabatch.report.fit import plant_file, verdict_of


def asked(
    signal: str, kind: str = BACKLOG, source: str = GUESSED, rate: int | None = None
) -> Question:
    metric = signal.partition("{")[0].rpartition("/")[2]
    return Question(signal, metric, kind, source, rate, "by its name")


def fleet(*questions: Question, clusters: int = 1) -> FleetFit:
    hpas = [
        Fitted(f"c{k % clusters}", "shop", f"web-{k}", True, (), (), (question,))
        for k, question in enumerate(questions)
    ]
    return FleetFit(tuple(hpas), (), (), {})


def read(found: FleetFit, folder: Path) -> tuple[str, tuple[PlantOverride, ...]]:
    text = plant_file(found, "history", ["plant.yaml"])
    path = folder / "plant.yaml"
    path.write_text(text)
    return text, read_plant_file(path)


def test_equal_metrics_of_many_hpas_are_one_line(tmp_path: Path) -> None:
    rates = (1_000, 2_500, 9_000, 2_500)
    lags = [asked(f"external/lag{{group=g{k}}}", rate=rate) for k, rate in enumerate(rates)]
    ways = [asked(f"object/Ingress/web-{k}/hits", TOTAL) for k in range(2)]
    text, (entry,) = read(fleet(*lags, *ways), tmp_path)
    signals = dict(entry.signals)
    assert list(signals) == ["external/lag{*}", "object/*/hits"]
    assert (signals["external/lag{*}"].kind, signals["external/lag{*}"].rate_milli) == (
        BACKLOG,
        2_500,
    )
    assert signals["object/*/hits"].kind == TOTAL
    assert "# shop/web-0, shop/web-1, shop/web-2 and 1 more: by its name (of the first)" in text
    assert verdict_of(fleet(*lags, *ways)) == (
        "2 metrics guessed (of 6 HPAs), 0 shown by the data, 0 without a guess; base or "
        "ceiling of 0 HPAs not known"
    )


def test_a_guess_does_not_count_for_hpas_whose_data_say_otherwise(tmp_path: Path) -> None:
    found = fleet(asked("external/lag", rate=700), asked("external/lag", TOTAL, FITTED), clusters=2)
    text, (entry,) = read(found, tmp_path)
    assert entry.selector.hpas == ("c0/shop/web-0",)
    assert dict(entry.signals)["external/lag"].rate_milli == 700
    assert '# - signals: {"external/lag": {kind: total}}  # c1/shop/web-1: by its name' in text


@pytest.mark.parametrize("source", [FITTED, NOT_IDENTIFIED])
def test_without_a_guess_there_is_nothing_but_comments(source: str, tmp_path: Path) -> None:
    kind = DIVISIBLE if source == FITTED else ""
    text, entries = read(fleet(asked("pods/heat", kind, source)), tmp_path)
    assert entries == ()
    assert '# - signals: {"pods/heat": {kind: divisible}}  # shop/web-0: by its name' in text


def test_names_cannot_leave_their_line(tmp_path: Path) -> None:
    signal = 'external/a"b\u2028c{k=\n- hpa: x}'
    text, (entry,) = read(fleet(asked(signal, TOTAL)), tmp_path)
    assert [glob for glob, _ in entry.signals] == [signal]
    assert len(text.splitlines()) == 9


def test_base_and_ceiling_that_nobody_knows_are_asked_for_in_comments(tmp_path: Path) -> None:
    def fact(
        name: str, value: float | None, source: str, high: float | None = None, note: str = ""
    ) -> Fact:
        return Fact(f"signals.{name}", value, "cores", None, high, source, note)

    facts = (
        fact("resource/cpu.kind", None, FITTED),
        fact("resource/cpu.base", 0.0, NOT_IDENTIFIED, 0.08),
        fact("resource/cpu.ceiling", None, OPEN),
        fact("resource/cpu.highest", 0.41, FITTED, None, "the most of a pod; and more"),
        fact("pods/rps.kind", None, FITTED),
        fact("pods/rps.base", 1.0, FITTED),
        fact("pods/rps.ceiling", 2.0, RECORDED),
    )
    found = FleetFit((Fitted("c", "shop", "web", True, facts, (), ()),), (), (), {})
    text, entries = read(found, tmp_path)
    assert entries == ()
    assert verdict_of(found).endswith("base or ceiling of 1 HPA not known")
    (line,) = [line for line in text.splitlines() if line.startswith("# - ")]
    assert line.endswith(
        "base not identified, at most 80m; ceiling: no limit is known; the most of a pod"
    )
    path = tmp_path / "stated.yaml"
    path.write_text(text.replace("[]  #", "#").replace("# - ", "- "))
    (entry,) = read_plant_file(path)
    assert entry.selector.hpas == ("shop/web",)
    stated = dict(entry.signals)["resource/cpu"]
    assert (stated.base_milli, stated.ceiling_milli) == (0, 410)


def test_a_plant_file_that_was_given_is_named_with_the_new_one() -> None:
    text = plant_file(fleet(asked("external/lag")), "history", ["old.yaml", "new.yaml"])
    assert "hpabatch simulate history --plant old.yaml --plant new.yaml\n" in text
