"""One pass of the live loop as a table: `kubectl get hpa` with our status, and the cluster's own.

REPLICAS is what the target has, DESIRED what we decided, CLUSTER what the cluster's own controller
did. WHY comes with the wide table, and where the two differ or
nothing could be decided.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass

import polars as pl

from hpabatch.layout import codes
from hpabatch.model.objects.hpa import HPA
from hpabatch.model.printable import printable, printable_line
from hpabatch.report.kubectl.get import GetRow, get_rows
from hpabatch.report.kubectl.text import NONE, columns

_MIN_WIDTH = 6
_PADDING = 3
_FAILING = frozenset(
    codes.BINDINGS[code].name
    for code in (codes.BOUND_BY_SCALE_READ, codes.BOUND_BY_SELECTOR, codes.BOUND_BY_INVALID_METRIC)
)
_GET_FIELDS = tuple(GetRow.__slots__)
_NUMBERS = ("maxpods", "replicas", "desired", "cluster_desired")


@dataclass(frozen=True, slots=True)
class LiveHpa:
    """An HPA as a pass left it.

    Attributes:
        document: with our status.
        desired: ours; None: nothing could be decided.
        theirs: status.desiredReplicas of the cluster's own controller; None: nobody wrote it.
        binding: the rule that bound ours.
        why: a sentence, or why nothing could be decided.
    """

    document: HPA
    desired: int | None
    theirs: int | None
    binding: str
    why: str

    @property
    def is_told(self) -> bool:
        """Whether the table says why, however narrow: it differs, or could not be decided."""
        return self.differs or self.desired is None or self.binding in _FAILING

    @property
    def differs(self) -> bool:
        """Whether both are known and unequal."""
        return None not in (self.desired, self.theirs) and self.desired != self.theirs


def live_table(
    hpas: Sequence[LiveHpa], now_ms: int, *, k8s: str, with_namespace: bool, wide: bool = False
) -> str:
    """Return kubectl's table and its columns DESIRED and CLUSTER, then WHY; "" without HPAs.

    Without `wide` only those that differ or fail say why, and the column is there if one does.

    Raises:
        UsageError: `k8s` is no Kubernetes version.
    """
    if not hpas:
        return ""
    rows = get_rows([hpa.document for hpa in hpas], now_ms, k8s=k8s)
    fields = [name for name in _GET_FIELDS if with_namespace or name != "namespace"]
    reasons = [_sentence(hpa.why) if wide or hpa.is_told else "" for hpa in hpas]
    heads = [*(name.upper() for name in fields), "DESIRED", "CLUSTER"]
    lines = ["\t".join(heads + ["WHY"] * any(reasons))]
    for row, hpa, reason in zip(rows, hpas, reasons, strict=True):
        cells = [printable(str(getattr(row, name))) for name in fields]
        cells += [_number(hpa.desired), _number(hpa.theirs)]
        lines.append("\t".join(cells + [reason] * any(reasons)))
    text = columns(lines, _MIN_WIDTH, _PADDING)
    return "".join(f"{line.rstrip(' ')}\n" for line in text.rstrip("\n").split("\n"))


def live_frame(hpas: Sequence[LiveHpa], now_ms: int, *, k8s: str, cluster: str) -> pl.DataFrame:
    """Return the table's cells as a frame, one row an HPA; `cluster_desired` is theirs.

    Raises:
        UsageError: `k8s` is no Kubernetes version.
    """
    rows = get_rows([hpa.document for hpa in hpas], now_ms, k8s=k8s)
    names = (
        "cluster", *_GET_FIELDS, "desired", "cluster_desired", "differs", "binding", "why",
    )  # fmt: skip
    found = [
        {"cluster": cluster}
        | asdict(row)
        | {
            "desired": hpa.desired,
            "cluster_desired": hpa.theirs,
            "differs": hpa.differs,
            "binding": hpa.binding,
            "why": hpa.why,
        }
        for row, hpa in zip(rows, hpas, strict=True)
    ]
    types = {name: pl.Int64() if name in _NUMBERS else pl.String() for name in names}
    return pl.DataFrame(found, schema=types | {"differs": pl.Boolean()})


def _number(value: int | None) -> str:
    return NONE if value is None else str(value)


def _sentence(text: str) -> str:
    return printable_line(" ".join(text.split()))
