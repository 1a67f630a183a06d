"""Units of cpu and memory: windows in names, and names that the values contradict."""

from __future__ import annotations

from pathlib import Path

import pytest

from hpabatch.importers.table.propose.columns import words_of
from hpabatch.importers.table.propose.run import propose_map


def proposed(folder: Path, name: str, value: float) -> str:
    """Return the map of a table with one pod, comments on one line."""
    rows = [f"2026-10-07T10:{m:02}:00Z,web-0,{value * (1 + m / 100):g}" for m in range(20)]
    (folder / "a.csv").write_text("\n".join([f"time,pod,{name}", *rows, ""]))
    return propose_map([str(folder / "a.csv")]).text.replace("\n  #   ", " ")


@pytest.mark.parametrize(
    "name",
    ["pod:cpu_usage:rate1m", "namespace_pod:cpu_usage:rate5m", "pod_cpu_usage_5m", "cpu:avg30s"],
)
def test_the_window_of_a_rate_is_no_unit(tmp_path: Path, name: str) -> None:
    text = proposed(tmp_path, name, 0.2235)
    assert "unit: cores}" in text
    assert "assumed: cores, because" in text


def test_words_of_names_with_windows() -> None:
    assert words_of("pod:cpu_usage:rate1m") == ("pod", "cpu", "usage", "rate")
    assert words_of("cpu_m") == ("cpu", "m")
    assert words_of("p95_cpu2") == ("p", "95", "cpu", "2")


@pytest.mark.parametrize(
    ("name", "value", "unit"),
    [
        ("cpu_millicores", 0.2235, "cores"),
        ("cpu_nanocores", 0.2235, "cores"),
        ("cpu_cores", 223_500_000, "nanocores"),
        ("memory_mib", 220_200_960, "bytes"),
        ("memory_bytes", 210.5, "MiB"),
    ],
)
def test_values_count_more_than_a_name_that_they_contradict(
    tmp_path: Path, name: str, value: float, unit: str
) -> None:
    text = proposed(tmp_path, name, value)
    assert f"unit: {unit}}}" in text
    assert f"though the column's name says {name.split('_')[1].replace('mib', 'MiB')}" in text


@pytest.mark.parametrize(
    ("name", "value", "unit"),
    [("cpu_mc", 223.5, "millicores"), ("cpu_m", 4.5, "millicores"), ("cpu_cores", 120, "cores")],
)
def test_names_that_the_values_allow(tmp_path: Path, name: str, value: float, unit: str) -> None:
    text = proposed(tmp_path, name, value)
    assert f"{unit}, by the column's name" in text
    assert f"unit: {unit}}}" in text
