"""The table of one pass: kubectl's own columns, then ours and theirs."""

from __future__ import annotations

from hpabatch.model.objects.hpa import HPA
from hpabatch.report.base import View
from hpabatch.report.forms import csv_text, json_text, table_text
from hpabatch.report.kubectl import get_rows, get_table
from hpabatch.report.live import LiveHpa, LivePass
from tests.model.settings_made import average, external, resource, utilization, value
from tests.report.kubectl_hpas import NOW_MS, hpa

WHY = "cpu asks for 5: the metrics' own proposal was applied"


def live(document: HPA, desired: int | None, theirs: int | None, why: str = WHY) -> LiveHpa:
    return LiveHpa(document, desired, theirs, "metric", why)


def documents() -> list[HPA]:
    return [
        hpa(resource("cpu", utilization(80)), external("queue", value("30")), name="web"),
        hpa(resource("cpu", average("200m")), name="worker"),
    ]


def table(hpas: list[LiveHpa], wide: bool = False) -> list[str]:
    text = table_text(LivePass(hpas, NOW_MS, "1.37", "", False), View(wide=wide))
    return text.splitlines()


def test_kubectls_own_columns_come_first() -> None:
    found = table([live(document, 3, 3) for document in documents()])
    plain = get_table(get_rows(documents(), NOW_MS, k8s="1.37"), with_namespace=False)
    for line, kubectls in zip(found, plain.splitlines(), strict=True):
        assert line.startswith(kubectls)
        assert line[len(kubectls) :].split() in (["DESIRED", "CLUSTER"], ["3", "3"])


def test_those_that_differ_say_why() -> None:
    web, worker = documents()
    found = table([live(web, 5, 3), live(worker, 2, 2, "not shown")])
    assert found[0].endswith("DESIRED   CLUSTER   WHY")
    assert found[1].endswith(f"5         3         {WHY}")
    assert found[2].endswith("2         2")
    wide = table([live(web, 3, 3), live(worker, 2, 2, "two\n lines \x1b[1m")], wide=True)
    assert wide[1].endswith(WHY)
    assert wide[2].endswith("two lines \\x1b[1m")


def test_what_is_not_known_is_none() -> None:
    web, worker = documents()
    found = table([live(web, None, 3, "no scale"), live(worker, 2, None)])
    assert found[1].split()[-4:] == ["<none>", "3", "no", "scale"]
    assert found[2].split()[-2:] == ["2", "<none>"]
    assert table_text(LivePass([], NOW_MS, "1.37")) == ""


def test_a_frame_has_the_same_cells() -> None:
    web, worker = documents()
    report = LivePass([live(web, 5, 3), live(worker, 2, None)], NOW_MS, "1.37", "east")
    frame = report.frame
    assert frame["desired"].to_list() == [5, 2]
    assert frame["cluster_desired"].to_list() == [3, None]
    assert frame["differs"].to_list() == [True, False]
    assert frame["targets"].to_list()[0] == get_rows([web], NOW_MS, k8s="1.37")[0].targets
    assert csv_text(report).startswith("cluster,namespace,name,reference,targets,")
    assert '"why":"cpu asks for 5' in json_text(report)
    assert LivePass([], NOW_MS, "1.37", "east").frame.schema == frame.schema
