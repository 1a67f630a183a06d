"""Lenses: which one is of a signal, and their words."""

from __future__ import annotations

from hpabatch.model.lens import CPU, MEMORY, Lens, disagreeing, lens_of, words_of


def test_the_last_lens_of_a_signal_counts() -> None:
    lenses = [Lens(CPU, None, 15_000), Lens(CPU, "a", 30_000), Lens("pods/rps", "b", scale=2.0)]
    assert lens_of(lenses, "a", CPU).lag_ms == 30_000
    assert lens_of(lenses, "b", CPU).lag_ms == 15_000
    assert lens_of(lenses, "b", "pods/rps").scale == 2
    assert not lens_of(lenses, "a", "pods/rps").changes
    assert not lens_of([], "a", CPU).changes


def test_memory_has_the_times_of_cpu_and_no_scale_of_its() -> None:
    seen = lens_of([Lens(CPU, None, 30_000, 60_000, 1.2)], "a", MEMORY)
    assert seen == Lens(MEMORY, None, 30_000, 60_000)
    assert disagreeing([Lens(CPU, None, 30_000)]) is None
    assert disagreeing([Lens(CPU, "a", 30_000), Lens(MEMORY, "a", 30_000, scale=0.9)]) is None
    found = disagreeing([Lens(CPU, "a", 30_000), Lens(MEMORY, "a", 15_000)])
    assert found is not None
    assert (found.cluster, found.signal) == ("a", MEMORY)


def test_words() -> None:
    assert words_of([]) == words_of([Lens(CPU)]) == "none"
    assert str(Lens(CPU)) == f"{CPU} as recorded"
    found = words_of([Lens(CPU, "a", -30_000, 60_000), Lens(MEMORY, scale=0.5)])
    assert found == f"a: {CPU} lag -30s, smoothing 1m; {MEMORY} scale 0.5"
