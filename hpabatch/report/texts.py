"""Names and characters as every report shows them."""

from __future__ import annotations

import polars as pl


def label(cluster: str, namespace: str, hpa: str, *, with_cluster: bool = False) -> str:
    """Return `namespace/hpa`, with the cluster in front where there are several."""
    return "/".join(part for part in (cluster if with_cluster else "", namespace, hpa) if part)


def printable(text: str) -> str:
    """Return text without control characters, which could drive the reader's terminal."""
    return "".join(c if c.isprintable() else "\N{REPLACEMENT CHARACTER}" for c in text)


def many_clusters(hpas: pl.DataFrame) -> bool:
    """Say whether a frame of HPAs is of several clusters."""
    return hpas["cluster"].n_unique() > 1
