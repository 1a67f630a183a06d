"""`hpabatch recommend`: what a sweep says should change, with the evidence."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from hpabatch.cli.app import app
from hpabatch.cli.arguments import check_replaced_folder
from hpabatch.cli.command import command
from hpabatch.cli.options import Output, OutputOption
from hpabatch.cli.stdout import show_report
from hpabatch.cli.talk import tell
from hpabatch.engine.advise.request import RecommendRequest
from hpabatch.errors import EXIT_OK, UsageError


@command(app)
def recommend(
    sweep: Annotated[
        str, typer.Argument(metavar="SWEEP", help="Folder that `hpabatch sweep` wrote.")
    ],
    request: RecommendRequest,
    patches: Annotated[
        str | None,
        typer.Option("--patches", metavar="FOLDER", help="Folder for patches and certificates."),
    ] = None,
    hpas: Annotated[
        list[str] | None,
        typer.Option("--hpas", metavar="PATH", help="Manifests to edit; may be repeated."),
    ] = None,
    in_place: Annotated[
        bool, typer.Option("--in-place", help="Edit the manifests themselves.")
    ] = False,
    output: OutputOption = Output.table,
) -> int:
    """Recommend settings from a sweep, or say why not.

    SWEEP is the folder of `hpabatch sweep --out`. For every HPA (or group of them) the setting with
    the least --minimize that keeps to the --slo is chosen on the first weeks and judged on the last
    ones, which it was not chosen on. The answer is "change", "keep" or "no advice", always with its
    reasons; docs/recommend.md explains them and every column.

    \b
    --slo MEASURE<LIMIT/UNIT   per hour, day or week; or % of the time, of minutes. It must hold for
                               every HPA, in the worst week and on average (--robust).
    --bound FIELD=LIMIT        how far from today's: target=15 (points), max=x2 (twice or half),
                               scaleDown.window=600 (seconds), policies=same, min=any.
                               [default: target=20, min=x2, max=x2, all else free]
                               Below 2 pods, and below what a PodDisruptionBudget or a topology
                               spread needs, minReplicas goes only with min=any.

    \b
    --patches FOLDER gets a strategic-merge patch NAMESPACE.HPA.yaml for every change, with its
    evidence as comments, and a certificate NAMESPACE.HPA.json for every HPA. The folder is new or
    empty, or holds earlier recommendations only: these are replaced. With --hpas the manifests of
    changed HPAs are edited too, only on the lines that change: copies in FOLDER/manifests, or with
    --in-place themselves. There is no patch of an HPA that KEDA, Flux, Argo CD, Helm or another
    controller writes: the answer says where to change it instead. Nor is there one of an HPA that
    the manifests or --objects say was edited since.

    \b
    Exit codes: 0 fine ("no advice" is an answer), 2 something cannot be read, 3 some manifests
    could not be edited, or HPAs were edited since (everything else is written).

    \b
    Examples:
      hpabatch recommend sweep/ --slo 'saturated_minutes<10/week' --minimize cost
      hpabatch recommend sweep/ --slo 'saturated_minutes<0.5%,rescales<40/day' --patches patches/
      hpabatch recommend sweep/ --slo 'unserved<=0' --bound target=10 --bound max=same -o csv
      hpabatch recommend sweep/ --slo 'saturated_minutes<10/week' --hpas deploy/ --in-place
    """
    if in_place and not hpas:
        raise UsageError("--in-place edits the manifests of --hpas: name them")
    if hpas and not (patches or in_place):
        raise UsageError("--hpas needs --patches FOLDER for the edited copies, or --in-place")
    from hpabatch.api.sweeps import open_sweep
    from hpabatch.api.sweeps import recommend as advise
    from hpabatch.cli.what_if.recommend_files import check_folder, write_files

    if patches is not None:
        check_replaced_folder(patches, "--patches")
        check_folder(Path(patches))
    advice, code = advise(open_sweep(sweep), request), EXIT_OK
    if patches is not None or hpas:
        advice, code = write_files(advice, patches, tuple(hpas or ()), in_place=in_place)
    tell(advice.warnings)
    show_report(advice, output)
    return code
