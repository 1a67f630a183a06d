"""Explanations as text and JSON: every kind of line, word for word, and the same in both."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from hpabatch.engine.explain.facts import Explanation
from hpabatch.layout import codes
from hpabatch.report.base import View
from hpabatch.report.explain.document import Explained, summary_sentence
from hpabatch.report.explain.steps import explanation_steps
from hpabatch.report.forms import json_text, table_text
from tests.report.explain.scenes import APPROVED, AVERAGE, CPU, last, of_pods, text
from tests.rules.helpers import (
    EXACT_WISH,
    FETCH_FAILED,
    Pod,
    hpa_spec,
    pods_metric,
    policies,
    some,
    tick,
    total,
    usages,
)


def test_every_scene_is_explained_as_it_was_approved() -> None:
    assert text() == APPROVED.read_text(), "python -m tests.report.explain.scenes"


# ---- table and JSON ------------------------------------------------------------------------------


def everything() -> list[Explanation]:
    """Return explanations that have every kind of step."""
    spec = hpa_spec(
        CPU, EXACT_WISH, pods_metric("60m"), behavior={"scaleUp": policies(("Pods", 4, 60))}
    )
    pods = some(4, 850) + some(2, None) + some(1, 1, ready="False", transition_s=-86_400)
    answers = [usages(pods), total(9000), FETCH_FAILED]
    found = [last(spec, tick(0, 7, pods, answers)), last(hpa_spec(CPU), tick(0, 0))]
    found.append(last(hpa_spec(AVERAGE), tick(0, 1, [], [total(5)], status=0)))
    found.append(of_pods(CPU, [Pod(1)] * 20, 2000))
    return found


@pytest.mark.parametrize("explanation", everything())
def test_the_json_says_what_the_table_says(explanation: Explanation) -> None:
    document = json.loads(json_text(Explained(explanation)))
    table = table_text(Explained(explanation))
    for step in document["steps"]:
        assert step["text"] in table
        assert step["upstream"] is None or step["upstream"].split(" ", 1)[1] in table
    body = table.split("\n\n")[2].splitlines()
    assert len(body) == len(document["steps"])
    for line, step in zip(body, document["steps"], strict=True):
        assert step["text"] in line
    assert document["summary"] == table.splitlines()[-1] == summary_sentence(explanation)


def test_the_json_has_every_number_and_pod() -> None:
    document = json.loads(json_text(Explained(everything()[0])))
    metric = document["metrics"][0]
    assert len(metric["pods"]) == 7
    assert metric["counts"] == {"ready": 4, "unready": 1, "missing": 2, "ignored": 0, "stray": 0}
    assert metric["first"]["ratio"] == 85 / 60
    assert metric["pods"][0]["started"] == "2023-11-13T22:13:20Z"
    assert metric["pods"][0]["window_ms"] == 30_000
    assert document["sync"] == "2023-11-14T22:13:20Z"
    assert document["windows"]["down_window_ms"] == 300_000
    assert document["windows"]["down_since"] == "2023-11-14T22:08:20.001Z"
    assert document["outcome"]["conditions"][0]["is_set"] is True
    assert [m["failure"] is None for m in document["metrics"]] == [True, True, False]


def test_numbers_that_are_none_are_texts_in_json() -> None:
    document = json.loads(json_text(Explained(everything()[2])))
    assert document["metrics"][0]["first"]["ratio"] == "+Inf"


def test_a_terminal_gets_lines_of_its_width() -> None:
    explanation = everything()[0]
    narrow = table_text(Explained(explanation), View(80))
    assert max(map(len, narrow.splitlines())) <= 80
    assert max(map(len, table_text(Explained(explanation)).splitlines())) > 120
    # What is folded goes on under its own column.
    folded = next(line for line in narrow.splitlines() if line.startswith(" " * 14))
    assert folded.strip()
    plain = "".join(narrow.split())
    for step in explanation_steps(explanation):
        assert "".join(step.text.split()) in plain


def test_nothing_of_a_history_drives_the_terminal() -> None:
    explanation = everything()[0]
    scale = replace(explanation.scale, name="web\x1b[2J", selector="a\nb")
    table = table_text(Explained(replace(explanation, scale=scale, hpa="web\x07")))
    assert "\x1b" not in table
    assert "\x07" not in table


def test_a_message_of_several_lines_stays_one() -> None:
    wrong = tick(0, 3, scale=codes.SCALE_GET_FAILED, scale_error="gone\nfor good")
    table = table_text(Explained(last(hpa_spec(CPU), wrong)))
    assert table.splitlines()[-1].startswith("shop/ changes nothing")
