"""Lens files: what they mean, and the sentence about everything that they cannot mean."""

from __future__ import annotations

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from hpabatch.inputs.lenses import LENS, Lens, lens_of, words_of
from tests.importers.mutations import check_mutations, complaint, given_keys, keys_of, refusal, says
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


def test_the_full_file_gives_every_key() -> None:
    assert given_keys(yaml.safe_load(FULL)) >= {name for _, name in keys_of(LENS)}


def test_every_mutation_is_fine_or_refused_by_its_key() -> None:
    full = yaml.safe_load(FULL)
    assert sum(check_mutations(parse_lens_file, entry, set()) for entry in full) > 100


def test_the_last_lens_of_a_signal_counts_and_cpu_and_memory_share_all_but_the_scale() -> None:
    cpu, other = Lens("resource/cpu", None, 1000, 2000, 3.0), Lens("resource/cpu", "c1", scale=2.0)
    assert lens_of([cpu, other], "c1", "resource/cpu") == other
    assert lens_of([cpu, other], "c2", "resource/cpu") == cpu
    assert lens_of([cpu], "c1", "resource/memory") == Lens("resource/memory", None, 1000, 2000)
    assert lens_of([cpu], "c1", "pods/queue") == Lens("pods/queue")


SENTENCES = {
    "": "file f.yaml: expected one document, got 0",
    "3": "expected a mapping with the keys signal, cluster, lag, smoothing, scale, got 3",
    "[]": "expected from 1 to 10000 items, got 0",
    "[{lag: 1s}]": "[0].signal: expected resource/cpu, resource/memory or pods/METRIC, got",
    "[{signal: external/q}]": "[0].signal: expected resource/cpu, resource/memory or pods/METRIC",
    "[{signal: resource/cpu, lag: 2h}]": "[0].lag: expected a duration such as 30s (seen later)",
    "[{signal: resource/cpu, lag: true}]": "[0].lag: expected a duration such as 30s (seen later)",
    "[{signal: resource/cpu, smoothing: -1s}]": "[0].smoothing: expected a duration such as 15s",
    "[{signal: resource/cpu, scale: 0}]": "[0].scale: expected a number from 0.01 to 100, got 0",
    "[{signal: resource/cpu, scal: 1}]": "did you mean scale?",
    "[{signal: resource/cpu, lag: 1s}, {signal: resource/memory, scale: 2}]": "expected one lag "
    "and one smoothing of resource/cpu and resource/memory, whose samples stand in one row; got "
    "others for resource/memory",
}


@pytest.mark.parametrize("text", SENTENCES)
def test_sentences(text: str) -> None:
    found = refusal(parse_lens_file, text)
    assert "file f.yaml" in found
    assert says(found, SENTENCES[text])


@given(st.text(max_size=60))
def test_no_text_gives_a_traceback(text: str) -> None:
    complaint(parse_lens_file, text)
