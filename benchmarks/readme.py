"""Measured parts of the pages: the README's screen, the tables of docs/proof.md and their extract.

    python -m benchmarks.readme README.md docs/proof.md build/bench.json

Without the JSON file of pytest-benchmark the tables of docs/proof.md stay; the README's screen and
its extract of these tables are renewed.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

ROOT = Path(__file__).resolve().parents[1]
Figures = dict[str, Any]
_HEAD = 2  # lines of a table's head


def replace_part(text: str, name: str, lines: list[str]) -> str:
    """Return `text` with new lines between the markers of a part."""
    begin, end = f"<!-- {name}: begin -->", f"<!-- {name}: end -->"
    before, _, rest = text.partition(begin)
    _, found, after = rest.partition(end)
    if not found:
        raise SystemExit(f"the markers {begin} … {end} are not in the file")
    return f"{before}{begin}\n" + "\n".join(lines) + f"\n{end}{after}"


def screen() -> list[str]:
    """Return what `make demo` prints, as a code block."""
    out = "build/demo/decisions.parquet"
    command = ["hpabatch", "replay", "data/demo", "--out", out, "--top", "12"]
    run = subprocess.run(
        [sys.executable, "-c", "from hpabatch.cli import main; main()", *command[1:]],
        check=True,
        capture_output=True,
        text=True,
        cwd=ROOT,
        env=dict(os.environ) | {"COLUMNS": "100"},
    )
    return ["```", f"$ {' '.join(command)}", *run.stdout.rstrip().splitlines(), "```"]


def machine(report: Figures) -> str:
    """Return one line that names the machine and the versions."""
    info = report["machine_info"]
    cpu = info["cpu"]
    name = cpu.get("brand_raw") or cpu.get("arch", "unknown processor")
    date = report["datetime"][:10]
    return (
        f"Measured {date} on {name}, {cpu.get('count')} cores, {info['system']}, "
        f"Python {info['python_version']}; kernels on one core, minimum of several runs."
    )


def _rounded(rate: float) -> str:
    return f"{rate / 1e6:.1f} M" if rate >= 1e6 else f"{rate / 1e3:.0f} k"


def _kernel(info: Figures, seconds: float) -> tuple[object, ...]:
    per_sample = f"{1e9 * seconds / info['samples']:.1f}"
    return info["pods"], info["metrics"], per_sample, _rounded(info["decisions"] / seconds)


def _simulate(info: Figures, seconds: float) -> tuple[object, ...]:
    per_tick, days = 1e9 * seconds / info["ticks"], info["hpa_days"] / seconds
    naive = info["python_ns_per_tick"] / 1000
    return info["plant"], f"{per_tick:.0f}", f"{days:,.0f}", f"{naive:,.0f}"


def _sweep(info: Figures, seconds: float) -> tuple[object, ...]:
    parts = info["seconds"]
    told = (parts.get("kernel", 0.0), parts.get("fit", 0.0), info["rest_seconds"])
    hpas = "1 HPA" if info["hpas"] == 1 else f"{info['hpas']} HPAs"
    what = f"{hpas} × {info['settings']:,} settings × {info['days']} days"
    return what, f"{parts['all']:.1f}", *(f"{part:.1f}" for part in told)


TABLES: Final[dict[str, tuple[str, str, Callable[[Figures, float], tuple[object, ...]]]]] = {
    "replay kernel": (
        "| pods per HPA | metrics | ns per pod sample | decisions/s and core |",
        "|---:|---:|---:|---:|",
        _kernel,
    ),
    "simulate": (
        "| simulated, a tick every 15 s | ns per tick | HPA-days/s and core | naive, µs a tick |",
        "|---|---:|---:|---:|",
        _simulate,
    ),
    "sweep": (
        "| sweep, samples a minute apart, 2 threads | seconds | kernel | fit and scores | rest |",
        "|---|---:|---:|---:|---:|",
        _sweep,
    ),
}
"""Tables by the group of their benchmarks: head, marks, and the cells of one."""


def table(report: Figures, group: str) -> list[str]:
    """Return the rows of a group of benchmarks below their head."""
    head, marks, cells = TABLES[group]
    found = (b for b in report["benchmarks"] if b["group"] == group)
    rows = (cells(b["extra_info"], b["stats"]["min"]) for b in found)
    return [head, marks, *(f"| {' | '.join(map(str, row))} |" for row in rows)]


def import_rows(report: Figures) -> list[str]:
    """Return the table of imports of one table, beside Polars in the same run."""
    found = {
        (b["extra_info"]["kind"], b["extra_info"]["what"]): b
        for b in report["benchmarks"]
        if b["group"] == "import"
    }
    lines = [
        "| `import table`, a row per pod and minute | rows/s | times Polars' scan and sort |",
        "|---|---:|---:|",
    ]
    for kind, name in (("csv", "CSV"), ("parquet", "Parquet")) if found else ():
        ours, theirs = found[kind, "import"], found[kind, "scan and sort"]
        rows, seconds = ours["extra_info"]["rows"], ours["stats"]["min"]
        ratio = seconds / theirs["stats"]["min"]
        lines.append(
            f"| {name}, {rows / 1e6:.1f} M rows | {_rounded(rows / seconds)} | {ratio:.1f} |"
        )
    return lines


def start_rows(report: Figures) -> list[str]:
    """Return the table of starts, `--help` beyond a bare interpreter."""
    seconds = {b["name"]: b["stats"]["min"] for b in report["benchmarks"] if b["group"] == "start"}
    if not seconds:
        return []
    beyond = seconds["test_help"] - seconds["test_bare_interpreter"]
    return [
        "| start | seconds |",
        "|---|---:|",
        f"| `hpabatch --help`, beyond a bare interpreter | {beyond:.2f} |",
        f"| demo replay, first run (compiles everything) | {seconds['test_demo_cold']:.1f} |",
        f"| demo replay, later runs | {seconds['test_demo_warm']:.1f} |",
    ]


def extract(page: str) -> list[str]:
    """Return the README's table: rows of the tables of docs/proof.md.

    Raises:
        SystemExit: a row is missing there.
    """
    lines = (line for line in page.splitlines() if line.startswith("|"))
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]

    def last_cell(*first: str) -> str:
        for row in rows:
            if row[: len(first)] == list(first):
                return row[-1]
        raise SystemExit(f"expected a row that begins with {first} in the tables, got none")

    kernel = [(pods, last_cell(pods, "1")) for pods in ("20", "100")]
    starts = [
        (name, last_cell(f"demo replay, {name}"))
        for name in ("first run (compiles everything)", "later runs")
    ]
    return [
        "| speed (machine and all tables: [docs/proof.md](docs/proof.md#speed)) | measured |",
        "|---|---:|",
        *(
            f"| replay of HPAs with {pods} pods and one metric, decisions/s and core | {rate} |"
            for pods, rate in kernel
        ),
        *(f"| `make demo`, {name} | {seconds} s |" for name, seconds in starts),
    ]


def main(readme_path: str, speed_path: str, report_path: str | None = None) -> None:
    """Renew the parts of the README and of docs/proof.md in place."""
    readme, speed = Path(readme_path), Path(speed_path)
    if report_path is not None:
        report = json.loads(Path(report_path).read_text())
        tables = [table(report, group) for group in TABLES]
        tables += [import_rows(report), start_rows(report)]
        # (a part of the benchmarks may have been run: a head without rows says nothing)
        measured = [table for table in tables if len(table) > _HEAD]
        lines = [machine(report), *(line for table in measured for line in ("", *table))]
        speed.write_text(replace_part(speed.read_text(), "benchmarks", lines))
    text = replace_part(readme.read_text(), "screen", screen())
    readme.write_text(replace_part(text, "speed", extract(speed.read_text())))


if __name__ == "__main__":
    main(*sys.argv[1:])
