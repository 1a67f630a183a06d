"""Laws that every generated fleet keeps, the demo too."""

from __future__ import annotations

import json
from collections.abc import Mapping
from itertools import pairwise

import polars as pl

from hpabatch.model.objects.decode import hpa_from_json
from hpabatch.model.objects.defaults import default_hpa
from hpabatch.model.objects.hpa import HPA
from hpabatch.model.objects.validate import validate_hpa
from hpabatch.model.versions import profile_for

NAMES = ("cluster", "namespace", "target", "uid", "pod")


def assert_lawful(tables: Mapping[str, pl.LazyFrame]) -> None:
    """Check pods, their samples, states and requests, labels and specs against each other."""
    pods = tables["pods"].collect()
    assert pods["uid"].is_unique().all()
    for earlier, later in pairwise(["created", "started", "deletion_requested", "gone"]):
        assert (pods[earlier] <= pods[later]).all()
    for table in ("pod_metrics", "pod_custom_metrics"):
        if table in tables:
            assert_within_lives(tables[table], pods)
    requests, states = tables["pod_requests"].collect(), tables["pod_states"].collect()
    assert set(requests["uid"]) == set(pods["uid"])
    numbers = requests.group_by("uid", app=pl.col("kind") == "app").agg(pl.col("index").sort())
    assert all(list(index) == list(range(len(index))) for index in numbers["index"])
    assert states.join(pods, on=["uid", "target"], how="anti").is_empty()
    assert (states["last_transition"] <= states["ts"]).all()
    scales = tables["scales"].select("namespace", "target", "selector").unique().collect()
    for labels, selector in pods.join(scales, on=["namespace", "target"])[
        "labels", "selector"
    ].rows():
        wanted = dict(part.split("=") for part in selector.split(","))
        assert wanted.items() <= json.loads(labels).items()
    for text in tables["hpas"].collect()["spec"]:
        hpa, problems = hpa_from_json(text)
        named = HPA(name="any", namespace="n", spec=hpa.spec, api_version=hpa.api_version)
        assert not problems, text
        assert not validate_hpa(default_hpa(named), profile_for("1.38")), text


def assert_within_lives(samples: pl.LazyFrame, pods: pl.DataFrame) -> None:
    """A pod's samples bear its names, and lie between its start and its end."""
    spans = samples.group_by(NAMES).agg(first=pl.col("ts").min(), last=pl.col("ts").max()).collect()
    lives = spans.join(pods, on=NAMES, how="left")
    assert (lives["first"] > lives["started"]).sum() == lives.height
    assert (lives["last"] < lives["gone"]).sum() == lives["gone"].count()
