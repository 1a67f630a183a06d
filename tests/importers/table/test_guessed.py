"""Guesses of a proposed map: stored with the history, told by results until they are stated."""

from __future__ import annotations

from pathlib import Path

import pytest

from hpabatch.errors import UsageError
from hpabatch.history.provenance import guesses_told
from hpabatch.history.reader import open_history
from hpabatch.importers.table.decode import read_map
from hpabatch.importers.table.propose.run import propose_map
from tests.cli.commands import runner
from tests.importers.table.propose.makes import per_workload, quantities
from tests.importers.tables import import_table

TARGETS = [("default", "default", name) for name in ("cart", "db", "web-frontend")]
WHOLE = "guessed the HPAs and requests of default/cart and 2 more, and all results rest on that"


def proposed(folder: Path) -> tuple[str, Path]:
    """Return a table and the map that --init proposes for it."""
    source, place = folder / "usage.csv", folder / "map.yaml"
    source.write_text(quantities().text)
    place.write_text(propose_map([str(source)]).text)
    return str(source), place


def told(place: Path, *, hpas: bool = True) -> tuple[str, ...]:
    return guesses_told(open_history(place), TARGETS, hpas=hpas)


def test_a_guess_is_told_until_the_map_states_it(tmp_path: Path) -> None:
    source, place = proposed(tmp_path)
    store = tmp_path / "h"
    import_table([source], place, store)
    (sentence,) = told(store)
    assert WHOLE in sentence
    assert "guessed the requests of" in told(store, hpas=False)[0]
    for left, expected in (("[requests]", "guessed the requests of"), ("[]", "")):
        text = place.read_text()
        place.write_text(text[: text.index("guessed: ")] + f"guessed: {left}\n")
        import_table([source], place, store, replace=True)
        assert [expected in sentence for sentence in told(store)] == [True] * bool(expected)


def test_replay_explain_and_quality_say_what_is_guessed(
    tmp_path: Path, capfdbinary: pytest.CaptureFixture[bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    source, place = proposed(tmp_path)
    import_table([source], place, tmp_path / "h")
    commands = (
        ["replay", str(tmp_path / "h")],
        ["explain", str(tmp_path / "h"), "default/cart"],
        ["history", "quality", str(tmp_path / "h")],
    )
    for name, *arguments in commands:
        found = runner(name, capfdbinary, monkeypatch)(*arguments)
        assert found.code == 0, found.stderr
        assert found.stderr.count(" guessed the HPA") == 1, name


def test_a_table_of_custom_metrics_alone_is_replayed(
    tmp_path: Path, capfdbinary: pytest.CaptureFixture[bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    source, place = tmp_path / "rps.csv", tmp_path / "map.yaml"
    rows = [f"2026-10-07T10:{m}:00Z,web,2,{m}\n" for m in range(10, 60)]
    source.write_text("time,service,replicas,rps\n" + "".join(rows))
    place.write_text(propose_map([str(source)]).text)
    import_table([str(source)], place, tmp_path / "h")
    found = runner("replay", capfdbinary, monkeypatch)(tmp_path / "h")
    assert found.code == 0, found.stderr
    assert found.stderr.count("pod_metrics: no usage was recorded, and no HPA") == 1
    assert "1 HPA, " in found.stdout


def test_what_the_table_has_is_no_guess(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text(per_workload().text)
    text = propose_map([str(tmp_path / "a.csv")]).text
    assert text.endswith("guessed: [requests, hpas]\n")
    head = "time,service,replicas,cpu_m,cpu_request_m\n"
    rows = [f"2026-10-07T10:{m}:00Z,web,2,{m},250\n" for m in range(10, 60)]
    (tmp_path / "b.csv").write_text(head + "".join(rows))
    assert propose_map([str(tmp_path / "b.csv")]).text.endswith("guessed: [hpas]\n")


def test_a_wrong_guess_is_refused(tmp_path: Path) -> None:
    _, place = proposed(tmp_path)
    place.write_text(place.read_text().replace("[requests, hpas]", "[limits]"))
    with pytest.raises(UsageError, match=r"expected one of requests, hpas, got .limits."):
        read_map(place)
