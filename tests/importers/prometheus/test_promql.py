"""Matchers in every selector of an expression: each kind of name, and what must stay alone."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hpabatch.importers.prometheus.client.promql import with_matchers
from tests.importers.prometheus.mapping_help import refused_by_promtool

C = 'c="1"'
CASES = {
    "up": 'up{c="1"}',
    "up{}": 'up{c="1"}',
    "up{ }": 'up{c="1" }',
    'up{a="b"}': 'up{c="1",a="b"}',
    'up {a="b",}': 'up {c="1",a="b",}',
    '{__name__=~"a|b"}': '{c="1",__name__=~"a|b"}',
    "job:up:sum[5m]": 'job:up:sum{c="1"}[5m]',
    "rate(up[5m:1m] offset 1h)": 'rate(up{c="1"}[5m:1m] offset 1h)',
    "sum by (pod, job) (rate(up[1m]))": 'sum by (pod, job) (rate(up{c="1"}[1m]))',
    "sum(up) by(pod)": 'sum(up{c="1"}) by(pod)',
    "sum BY (pod) (up)": 'sum BY (pod) (up{c="1"})',
    "topk(3, up) without (a)": 'topk(3, up{c="1"}) without (a)',
    "a / on(x) group_left(y) b": 'a{c="1"} / on(x) group_left(y) b{c="1"}',
    "a * ignoring (x) group_right b": 'a{c="1"} * ignoring (x) group_right b{c="1"}',
    "a and b or c unless d": 'a{c="1"} and b{c="1"} or c{c="1"} unless d{c="1"}',
    "a > bool 1e3": 'a{c="1"} > bool 1e3',
    "a == Inf or a != NaN": 'a{c="1"} == Inf or a{c="1"} != NaN',
    "up @ start()": 'up{c="1"} @ start()',
    "up @ 1609746000 offset -5m": 'up{c="1"} @ 1609746000 offset -5m',
    'label_replace(up, "a", "$1", "b", "(.*)")': 'label_replace(up{c="1"}, "a", "$1", "b", "(.*)")',
    "vector(0)": "vector(0)",
    "1 + 2 * 0x1F": "1 + 2 * 0x1F",
    "time() - up # by (pod) up{\n": 'time() - up{c="1"} # by (pod) up{\n',
    'up{a="}",b=~"[x]{2}"} + 1': 'up{c="1",a="}",b=~"[x]{2}"} + 1',
    "up{a='\\'}'}": "up{c=\"1\",a='\\'}'}",
    'histogram_quantile(.95, sum(rate(x_bucket{a="b"}[5m])) by (le))':
        'histogram_quantile(.95, sum(rate(x_bucket{c="1",a="b"}[5m])) by (le))',
    'count_values("v", up)': 'count_values("v", up{c="1"})',
    "max_over_time(deriv(up[5m])[1h:])": 'max_over_time(deriv(up{c="1"}[5m])[1h:])',
}  # fmt: skip


@pytest.mark.parametrize("promql", sorted(CASES))
def test_each_selector_gets_them(promql: str) -> None:
    assert with_matchers(promql, C) == CASES[promql]
    assert with_matchers(promql, "") == promql


def test_a_server_reads_what_is_written(tmp_path: Path) -> None:
    assert not refused_by_promtool(tmp_path, CASES.values())


@given(st.text(alphabet="up{}[]()\"'`\\ab5m# by,\n.", max_size=40))
def test_any_text_keeps_all_its_characters_in_order(text: str) -> None:
    rest = iter(with_matchers(text, C))
    assert all(char in rest for char in text)
