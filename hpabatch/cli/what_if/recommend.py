"""`hpabatch recommend`: what a sweep says should change, with the evidence."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from hpabatch.cli.app import app
from hpabatch.cli.arguments import check_replaced_folder
from hpabatch.cli.options import MinimizeOption, Output, OutputOption, SloOption
from hpabatch.cli.stdout import check_stdout, show_report
from hpabatch.cli.talk import say
from hpabatch.errors import EXIT_OK, UsageError

if TYPE_CHECKING:
    from hpabatch.engine.advise.judge import JudgeRules
    from hpabatch.report.recommend import RecommendReport

_HELP = """Recommend settings from a sweep, or say why not.

SWEEP is the folder of `hpabatch sweep --out`. For every HPA (or group of them) the setting with the
least --minimize that keeps to the --slo is chosen on the first weeks and judged on the last ones,
which it was not chosen on. The answer is "change", "keep" or "no advice", always with its reasons;
docs/recommend.md explains them and every column.

\b
--slo MEASURE<LIMIT/UNIT   per hour, day or week; or % of the time, of minutes. It must hold for
                           every HPA, in the worst week and on average (--robust).
--bound FIELD=LIMIT        how far from today's: target=15 (points), max=x2 (twice or half),
                           scaleDown.window=600 (seconds), policies=same, min=any.
                           [default: target=20, min=x2, max=x2, all else free]

\b
--patches FOLDER gets a strategic-merge patch NAMESPACE.HPA.yaml for every change, with its
evidence as comments, and a certificate NAMESPACE.HPA.json for every HPA. The folder is new or
empty, or holds earlier recommendations only: these are replaced. With --hpas the manifests of
changed HPAs are edited too, only on the lines that change: copies in FOLDER/manifests, or with
--in-place themselves.

\b
Exit codes: 0 fine ("no advice" is an answer), 2 something cannot be read, 3 some manifests could
not be edited (everything else is written).

\b
Examples:
  hpabatch recommend sweep/ --slo 'saturated_minutes<10/week' --minimize cost
  hpabatch recommend sweep/ --slo 'saturated_minutes<0.5%,rescales<40/day' --patches patches/
  hpabatch recommend sweep/ --slo 'unserved<=0' --bound target=10 --bound max=same -o csv
  hpabatch recommend sweep/ --slo 'saturated_minutes<10/week' --hpas deploy/ --in-place
"""


class Robust(StrEnum):
    """Where an SLO must hold."""

    both = "both"
    worst = "worst"
    mean = "mean"


class Recommender(StrEnum):
    """Who chooses."""

    judged = "judged"
    random = "random"


@app.command(help=_HELP)
def recommend(
    sweep: Annotated[
        str, typer.Argument(metavar="SWEEP", help="Folder that `hpabatch sweep` wrote.")
    ],
    slo: SloOption = None,
    minimize: MinimizeOption = None,
    patches: Annotated[
        str | None, typer.Option("--patches", metavar="FOLDER", help="Patches and certificates.")
    ] = None,
    hpas: Annotated[
        list[str] | None,
        typer.Option("--hpas", metavar="PATH", help="Manifests to edit; may be repeated."),
    ] = None,
    in_place: Annotated[
        bool, typer.Option("--in-place", help="Edit the manifests themselves.")
    ] = False,
    bound: Annotated[
        list[str] | None,
        typer.Option("--bound", metavar="FIELD=LIMIT", help="How far from today's; repeatable."),
    ] = None,
    min_history: Annotated[
        str, typer.Option("--min-history", metavar="TIME", help="Less gives no advice: 14d, 36h.")
    ] = "14d",
    margin: Annotated[
        float, typer.Option("--margin", help="Share of an SLO's limit that a change leaves free.")
    ] = 0.1,
    robust: Annotated[Robust, typer.Option("--robust", help="Where the SLO must hold.")] = (
        Robust.both
    ),
    judged_blocks: Annotated[
        int | None,
        typer.Option(
            "--judged-blocks",
            metavar="N",
            help="Last weeks (of a short history days) to judge on.  [default: a third]",
        ),
    ] = None,
    least_saving: Annotated[
        float, typer.Option("--least-saving", metavar="PERCENT", help="Below it nothing changes.")
    ] = 1.0,
    least_better: Annotated[
        float,
        typer.Option("--least-better", metavar="SHARE", help="Of resamples that must be better."),
    ] = 0.9,
    resamples: Annotated[
        int, typer.Option("--resamples", metavar="N", help="Draws of training weeks.")
    ] = 1000,
    seed: Annotated[int, typer.Option("--seed", min=0, help="Of the draws.")] = 0,
    recommender: Annotated[
        Recommender,
        typer.Option("--recommender", help="random: any candidate, as a yardstick."),
    ] = Recommender.judged,
    output: OutputOption = Output.table,
) -> None:
    """Recommend settings from a sweep, or say why not."""
    from hpabatch.engine.advise.judge import JudgeRules

    rules = JudgeRules(
        robust=robust.value,
        margin=margin,
        least_saving_pct=least_saving,
        least_better=least_better,
        judged_blocks=judged_blocks,
        resamples=resamples,
        seed=seed,
    )
    days = parse_days(min_history, "--min-history")
    if in_place and not hpas:
        raise UsageError("--in-place edits the manifests of --hpas: name them")
    if hpas and not (patches or in_place):
        raise UsageError("--hpas needs --patches FOLDER for the edited copies, or --in-place")
    check_stdout(output)
    if patches is not None:
        from hpabatch.cli.what_if.recommend_files import check_folder

        check_replaced_folder(patches, "--patches")
        check_folder(Path(patches))
    goal = (tuple(slo or ()), minimize)
    report = _recommended(sweep, goal, bound or (), rules, days, recommender.value)
    code = EXIT_OK
    if patches is not None or hpas:
        from hpabatch.cli.what_if.recommend_files import write_files

        report, code = write_files(report, patches, tuple(hpas or ()), in_place=in_place)
    for warning in report.warnings:
        say(f"warning: {warning}")
    _show(report, output)
    raise typer.Exit(code)


def parse_days(text: str, option: str) -> float:
    """Return a time such as `14d` or `36h` in days (UsageError: another form)."""
    found = re.fullmatch(r"(\d{1,6}(?:\.\d+)?)(d|h|w)", text.strip())
    if found is None:
        raise UsageError(f"{option} {text}: not a time such as 14d, 36h or 2w")
    return float(found[1]) * {"d": 1.0, "h": 1 / 24, "w": 7.0}[found[2]]


def _recommended(
    sweep: str,
    goal: tuple[Sequence[str], str | None],
    bounds: Sequence[str],
    rules: JudgeRules,
    days: float,
    recommender: str,
) -> RecommendReport:
    """Read the sweep and judge it."""
    from hpabatch.engine.advise.answer import RecommendOptions
    from hpabatch.engine.advise.apply import settings_of
    from hpabatch.engine.advise.bounds import parse_bounds
    from hpabatch.engine.advise.objective import parse_goal
    from hpabatch.engine.advise.run import recommend as advise
    from hpabatch.jobs.sweep_files import read_sweep
    from hpabatch.report.recommend import RecommendReport

    limits = parse_bounds(bounds)
    result = read_sweep(sweep)
    options = RecommendOptions(
        goal=parse_goal(*goal, result.blocks),
        rules=rules,
        bounds=limits,
        min_history_days=days,
        recommender=recommender,
        sweep=_digest(Path(sweep)),
    )
    return RecommendReport(advise(result, options, settings_of(result)))


def _digest(folder: Path) -> str:
    """Return a digest of a sweep's files: of their names and bytes, in the order of the names."""
    digest = hashlib.sha256()
    for path in sorted(folder.iterdir()):
        if path.is_file() and not path.name.startswith("."):
            digest.update(f"{path.name}\0{path.stat().st_size}\0".encode())
            with path.open("rb") as stream:
                while chunk := stream.read(1 << 20):
                    digest.update(chunk)
    return digest.hexdigest()


def _show(report: RecommendReport, output: Output) -> None:
    """Write the report to stdout."""
    from hpabatch.report import recommend as forms

    show_report(forms, report, output)
