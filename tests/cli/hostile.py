"""Names that attack who reads them: in a history, in manifests and in files that people write."""

from __future__ import annotations

import json
import re
import unicodedata
from collections.abc import Callable
from pathlib import Path
from typing import Any

import polars as pl

from tests.engine.swept import cut

NASTY = (
    "=\x1b]8;;x\x1b\\[red]\x1b[2J\r\nerror: forged\t\x07\x08\x7f\x9b31m\x85"
    "\u2028\u2029\u202e\u2066\u200b\u200f\ufeff\u00ad\U000e0041\u3164\ufe0f"
    "\\n|`*<b>&;,\"'$x_1${0}[link=x](y) é日本"
)
"""What is put behind a name: what drives terminals, forges lines, cells, markup or links.

(`/` and `%` are refused in whatever stands in a path of the API server.)
"""
PLAIN = "-name" * 30
"""The same for names that attack nobody; as long, so that they are laid out alike."""

Rename = Callable[[str], str]
_FREE = {"cluster", "target", "pod", "container", "metric", "node", "uid", "series", "owner"}
"""Columns of names that no API server restricts, or that a history takes all the same."""
_STRICT = {"namespace", "name", "hpa"}
_KINDS = ("Other", "Separator")
_ESCAPE = re.compile(r"\\(?:x(..)|u(....)|U(........)|(.))")
_SHORT = {"n": "\n", "r": "\r", "t": "\t", "\\": "\\"}


def unescaped(cell: str) -> str:
    """Undo the escapes of a cell, as docs/output.md says."""

    def character(found: re.Match[str]) -> str:
        code = found[1] or found[2] or found[3]
        return chr(int(code, 16)) if code else _SHORT[found[4]]

    return _ESCAPE.sub(character, cell)


def raw_characters(text: str) -> list[str]:
    """Return what should have been escaped, line ends of ours excepted."""
    return sorted(
        {
            f"U+{ord(c):04X}"
            for c in text
            if (c != "\n" and c != " " and unicodedata.category(c)[0] in "CZ")
            or c in "\u3164\ufe0f"
        }
    )


def history(folder: Path, rename: Rename, *targets: str, strict: bool = False) -> Path:
    """Write a small history of two clusters with other names; `targets`: of which workloads.

    With `strict` also those that Kubernetes restricts: no such HPA is replayed.
    """

    def changed(column: str, text: str) -> str:
        if column == "spec":
            return json.dumps(_spec(json.loads(text), rename, strict))
        if column in ("labels", "annotations"):
            value = rename("value").replace("\n", "")  # kubectl shows the lines of annotations
            return json.dumps(json.loads(text) | {rename("key"): value + "\ud800"})
        free = column in _FREE and (strict or text != "app")  # a container that specs name
        return rename(text) if free or (strict and column in _STRICT) else text

    cut(folder, *(targets or ("shop/checkout", "media/transcoder")), hours=0.6)
    for file in folder.glob("*.parquet"):
        rows = pl.read_parquet(file)
        for column, dtype in rows.schema.items():
            if dtype not in (pl.String, pl.Categorical):
                continue
            rows = rows.with_columns(pl.col(column).cast(pl.String))
            old = rows[column].unique().drop_nulls().to_list()
            new = [changed(column, text) for text in old]
            rows = rows.with_columns(pl.col(column).replace(old, new))
        other = rows.with_columns(cluster=pl.lit(rename("other")))
        pl.concat([rows, other]).write_parquet(file)
    return folder


def _spec(spec: dict[str, Any], rename: Rename, strict: bool) -> dict[str, Any]:
    spec["scaleTargetRef"]["name"] = rename(spec["scaleTargetRef"]["name"])
    for metric in spec.get("metrics", []):
        for source in metric.values():
            if not isinstance(source, dict):
                continue
            for key in ("metric", "describedObject"):
                if key in source:
                    source[key]["name"] = rename(source[key]["name"])
            if "container" in source and strict:
                source["container"] = rename(source["container"])
    return spec


def manifests(path: Path, rename: Rename, *, strict: bool = False) -> None:
    """Write manifests: HPAs that are valid but for unknown fields, with `strict` no more."""
    documents = []
    for name in ("checkout", "cart"):
        change: Rename = rename if strict else str
        document = manifest(change(name), change("shop"), rename(name))
        document["metadata"]["labels"] = {change("a"): change("b")}
        kind = change("Value")
        metric = {"metric": {"name": rename("queue")}, "target": {"type": kind, "value": "1"}}
        document["spec"]["metrics"].append({"type": "External", "external": metric})
        document["spec"][rename("unknown")] = rename("field")
        documents.append(document)
    path.write_text("---\n".join(json.dumps(document) + "\n" for document in documents))


def manifest(name: str, namespace: str, target: str, **spec: Any) -> dict[str, Any]:
    """Return an HPA of a Deployment on CPU."""
    return {
        "apiVersion": "autoscaling/v2",
        "kind": "HorizontalPodAutoscaler",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {
            "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": target},
            "minReplicas": 2,
            "maxReplicas": 10,
            "metrics": [
                {
                    "type": "Resource",
                    "resource": {
                        "name": "cpu",
                        "target": {"type": "Utilization", "averageUtilization": 60},
                    },
                }
            ],
        }
        | spec,
    }
