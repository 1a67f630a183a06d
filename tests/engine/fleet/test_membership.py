"""Tests of the pods that a selector matches, and of the places they are read from."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from hpabatch.engine.fleet.candidates import Candidate, candidates_from_history
from hpabatch.engine.fleet.membership import Place, Selections, selects
from hpabatch.model.versions import PROFILES
from tests.engine.naive_align import BROKEN_SELECTORS, SELECTORS, Row, is_selected
from tests.engine.small_history import METRICS, hpa_row, pod_row, scale_row, to_frame

PODS = [
    pod_row("web-0"),
    pod_row("web-1", target=None, labels={"app": "web", "tier": "db"}),
    pod_row("api-0", labels={"app": "api", "tier": "x"}),
    pod_row("web-7", namespace="other"),
]


texts = st.sampled_from([*SELECTORS, *BROKEN_SELECTORS, "", None])
labels = st.dictionaries(
    st.sampled_from(["app", "tier"]), st.sampled_from(["web", "api", "db", ""]), max_size=2
)
pods = st.builds(
    lambda k, owned, tags: pod_row(f"web-{k}", target=owned, labels=tags),
    st.integers(0, 5),
    st.sampled_from(["web", "api", None]),
    labels,
)


def candidate() -> Candidate:
    frame = to_frame("hpas", [hpa_row("one", "web", METRICS[:1])])
    return candidates_from_history(frame, lambda _: PROFILES["1.38"])[0][0]


@given(st.lists(pods, max_size=5), st.lists(texts, max_size=3))
def test_every_pod_that_a_selector_matches_is_in_a_place_that_is_read(
    rows: list[Row], selectors: list[str | None]
) -> None:
    scales = to_frame(
        "scales", [scale_row("web", k, 1, selector=t) for k, t in enumerate(selectors)]
    )
    distinct = to_frame("pods", rows).select("cluster", "namespace", "target", "labels").unique()
    places = Selections(scales.drop("ts"), distinct).places(candidate())
    wanted: set[Place] = {("shop", "web")}
    for row in rows:
        for text in selectors:
            if text not in ("", *BROKEN_SELECTORS) and is_selected(
                {"selector": text, "target": "web"}, row
            ):
                wanted.add(("shop", row["target"]))
    assert set(places) == wanted
    assert len(places) == len(wanted)


def test_labels_of_other_types_are_read_as_texts() -> None:
    assert selects("tier=1", "web", None, '{"tier": 1}')


def test_a_scale_of_another_kind_or_namespace_says_nothing() -> None:
    rows = [
        scale_row("web", 0, 1, selector="tier=x", target_kind="StatefulSet"),
        scale_row("web", 0, 1, selector="tier=x", namespace="other"),
        scale_row("web", 0, 1, selector="tier=x", cluster="c2"),
    ]
    frame = to_frame("pods", PODS).select("cluster", "namespace", "target", "labels")
    assert Selections(to_frame("scales", rows), frame).places(candidate()) == [("shop", "web")]
