"""Labels of pods, as far as kube-state-metrics tells them.

It exports those labels only that it was told to (--metric-labels-allowlist), under names in which
every character but letters, digits and _ has become _, and capitals small letters with _ before
them; and no selector at all. So labels are for information, and which pods an HPA counts goes by
their owner.
"""

from __future__ import annotations

import json
from typing import Final

import polars as pl

from hpabatch.importers.prometheus.client.samples import Findings, Samples

_PREFIX = "label_"
_KEY = ("namespace", "pod", "uid")
_USUAL = (
    *("app.kubernetes.io/name", "app.kubernetes.io/instance", "app.kubernetes.io/version"),
    *("app.kubernetes.io/component", "app.kubernetes.io/part-of", "app.kubernetes.io/managed-by"),
    *("helm.sh/chart", "k8s-app", "pod-template-hash", "controller-revision-hash"),
    *("pod-template-generation", "statefulset.kubernetes.io/pod-name"),
    *("apps.kubernetes.io/pod-index", "rollouts-pod-template-hash"),
    *("topology.kubernetes.io/zone", "topology.kubernetes.io/region"),
)
_KEYS: Final = {key.translate(str.maketrans("./-", "___")): key for key in _USUAL}


def label_key(name: str) -> str | None:
    """Return the key of a label by its exported name without prefix; None: it cannot be told.

    A name without _ is its own key, and the usual keys are known. Any other one may stand for
    several: `team_name` for team-name, team.name, team/name, teamName and itself.
    """
    return name if "_" not in name else _KEYS.get(name)


def label_texts(labels: Samples, findings: Findings) -> pl.DataFrame:
    """Return namespace, pod, uid and `labels` as the text of a JSON object, sorted by key.

    Args:
        labels: kube_pod_labels, a sample per series.
        findings: gets ("label", name), for each name of which the key cannot be told, the number
            of pods.
    """
    frame = labels.with_labels(_KEY).series
    keys = {}
    for name in (n for n in labels.names if n.startswith(_PREFIX)):
        key = label_key(name.removeprefix(_PREFIX))
        if key is None:
            count = frame[name].len() - frame[name].null_count()
            findings.note("label", f"{name} is left out: its key cannot be told", count)
        else:
            keys[key] = name
    names = [keys[key] for key in sorted(keys)]
    texts: dict[tuple[str | None, ...], str] = {}
    found = []
    for row in frame.select(names).rows() if names else [()] * frame.height:
        if row not in texts:
            said = {key: v for key, v in zip(sorted(keys), row, strict=True) if v is not None}
            texts[row] = json.dumps(said, separators=(",", ":"))
        found.append(texts[row])
    return frame.select(_KEY).with_columns(labels=pl.Series(found, dtype=pl.String))
