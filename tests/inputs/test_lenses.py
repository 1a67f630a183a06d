"""Lens files: what they mean, and the sentence about everything that they cannot mean."""

from __future__ import annotations

from hpabatch.inputs.lenses import Lens, lens_of, words_of
from tests.inputs.parsed import parse_lens_file

FULL = """
- {signal: resource/cpu, cluster: c1, lag: -30s, smoothing: 5m, scale: 1.25}
- {signal: "pods/queue{a=b}", lag: 1m30s}
"""


def test_every_key_means_what_the_page_says() -> None:
    found = parse_lens_file(FULL)
    assert found == (
        Lens("resource/cpu", "c1", -30_000, 300_000, 1.25),
        Lens("pods/queue{a=b}", None, 90_000),
    )
    assert found[0].place == "lens file, line 2: [0]"
    assert words_of(found) == (
        "c1: resource/cpu lag -30s, smoothing 5m, scale 1.25; pods/queue{a=b} lag 1m30s"
    )
    assert parse_lens_file("[{signal: resource/cpu, lag: 0}]") == (Lens("resource/cpu"),)
    assert words_of([Lens("resource/cpu")]) == "none"


def test_the_last_lens_of_a_signal_counts_and_cpu_and_memory_share_all_but_the_scale() -> None:
    cpu, other = Lens("resource/cpu", None, 1000, 2000, 3.0), Lens("resource/cpu", "c1", scale=2.0)
    assert lens_of([cpu, other], "c1", "resource/cpu") == other
    assert lens_of([cpu, other], "c2", "resource/cpu") == cpu
    assert lens_of([cpu], "c1", "resource/memory") == Lens("resource/memory", None, 1000, 2000)
    assert lens_of([cpu], "c1", "pods/queue") == Lens("pods/queue")
