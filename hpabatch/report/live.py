"""One pass of the live loop: the table of `kubectl get hpa` with both controllers' decisions.

REPLICAS is what the target has, DESIRED what hpabatch decided, CLUSTER what the cluster's own
controller did. WHY comes with the wide table, and where the two differ or nothing could be decided.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import polars as pl

from hpabatch.engine.columns.history import LIVE
from hpabatch.layout import codes
from hpabatch.model.objects.hpa import HPA
from hpabatch.model.printable import printable_line
from hpabatch.report.base import Grid, Output, Result, View
from hpabatch.report.forms import frame_grid
from hpabatch.report.kubectl import NONE, GetRow, get_rows, get_table

_FAILING = frozenset(
    codes.BINDINGS[code].name
    for code in (codes.BOUND_BY_SCALE_READ, codes.BOUND_BY_SELECTOR, codes.BOUND_BY_INVALID_METRIC)
)


@dataclass(frozen=True, slots=True)
class LiveHpa:
    """An HPA as a pass left it.

    Attributes:
        document: with the status that the pass wrote.
        desired: what the pass decided; None: nothing could be decided.
        theirs: status.desiredReplicas of the cluster's own controller; None: nobody wrote it.
        binding: the rule that bound the decision.
        why: a sentence, or why nothing could be decided.
    """

    document: HPA
    desired: int | None
    theirs: int | None
    binding: str
    why: str

    @property
    def is_told(self) -> bool:
        """Whether even the narrow table has the reason: it differs, or could not be decided."""
        return self.differs or self.desired is None or self.binding in _FAILING

    @property
    def differs(self) -> bool:
        """Whether both are known and unequal."""
        return None not in (self.desired, self.theirs) and self.desired != self.theirs


@dataclass(frozen=True, repr=False)
class LivePass(Result):
    """One pass.

    Attributes:
        hpas: as the pass left them.
        now_ms: time of the pass.
        k8s: the release whose table is followed.
        cluster: its name.
        with_namespace: as with `kubectl get -A`.
    """

    hpas: Sequence[LiveHpa]
    now_ms: int
    k8s: str
    cluster: str = ""
    with_namespace: bool = True

    def own(self, output: Output, view: View) -> str | None:
        if output is Output.json:
            return self.frame.write_json() + "\n"
        return self._table(view.wide) if output is Output.table else None

    def _table(self, wide: bool) -> str:
        """Return kubectl's table and its columns DESIRED and CLUSTER, then WHY; "" without HPAs.

        Without `wide` only those that differ or fail have a reason, and the column is there if one
        has.
        """
        reasons = [
            printable_line(" ".join(hpa.why.split())) if wide or hpa.is_told else ""
            for hpa in self.hpas
        ]
        more = [["DESIRED", "CLUSTER", "WHY"]]
        for hpa, reason in zip(self.hpas, reasons, strict=True):
            sizes = (NONE if n is None else str(n) for n in (hpa.desired, hpa.theirs))
            more.append([*sizes, reason])
        if not any(reasons):
            more = [cells[:-1] for cells in more]
        table = get_table(self._rows(), self.with_namespace, more)
        return "".join(f"{line.rstrip(' ')}\n" for line in table.splitlines())

    def _rows(self) -> list[GetRow]:
        return get_rows([hpa.document for hpa in self.hpas], self.now_ms, k8s=self.k8s)

    def body(self, view: View) -> Iterator[str | Grid]:
        yield frame_grid(self.frame, LIVE)

    @property
    def frame(self) -> pl.DataFrame:
        found = [
            row._asdict()
            | {
                "cluster": self.cluster,
                "desired": hpa.desired,
                "cluster_desired": hpa.theirs,
                "differs": hpa.differs,
                "binding": hpa.binding,
                "why": hpa.why,
            }
            for row, hpa in zip(self._rows(), self.hpas, strict=True)
        ]
        return pl.DataFrame(found, schema=LIVE.schema)
