"""`hpabatch plot`: pictures of a sweep."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

import typer

from hpabatch.cli.app import app
from hpabatch.cli.arguments import parse_at, parse_duration
from hpabatch.cli.options import MinimizeOption, Output, SloOption
from hpabatch.cli.stdout import check_stdout, send_text
from hpabatch.cli.talk import say
from hpabatch.errors import EXIT_OK, EXIT_REFUSED, UsageError
from hpabatch.model.printable import printable_line

_HELP = """Draw pictures of a sweep: front, heat maps, before and after.

SWEEP is the folder of `hpabatch sweep --out`. Pictures go to --out, their paths to stdout; notes go
to stderr. Without any of --front, --heatmap and --timeline it is the front of every unit, of at
most 20. docs/plot.md explains what is drawn. Needs matplotlib: pip install 'hpabatch[plot]'.

\b
--front               objective against harm of all settings of a unit, and the front of those that
                      no other one beats.
--heatmap F1,F2       objective and harm over two fields of the sweep's grid.
--timeline NS/NAME    replicas, demand and saturation of an HPA, before and after: both settings are
                      simulated again, so the history must be there.

\b
--slo and --minimize mean the same as those of `hpabatch recommend`: with --slo the setting that it
recommends is marked, and drawn in timelines. --setting takes one of your own instead, its number or
its name (setting_id and setting of the sweep's tables).

\b
Exit codes: 0 fine, 2 something cannot be read or was asked wrongly, 3 some pictures, or all, have
nothing to show (the others are written).

\b
Examples:
  hpabatch plot sweep/
  hpabatch plot sweep/ --front --heatmap target,scaleDown.window --hpa shop/api --out pictures/
  hpabatch plot sweep/ --front --unit label:tier=web --slo 'saturated_minutes<10/week' --format png
  hpabatch plot sweep/ --timeline shop/api --setting 'target=70 scaleDown.window=300'
  hpabatch plot sweep/ --timeline shop/api --setting 12 --from '2026-10-07 08:00' --for 6h
"""


class Format(StrEnum):
    """The form of the files."""

    svg = "svg"
    png = "png"


@app.command(help=_HELP)
def plot(
    sweep: Annotated[
        str, typer.Argument(metavar="SWEEP", help="Folder that `hpabatch sweep` wrote.")
    ],
    front: Annotated[bool, typer.Option("--front", help="Objective against harm.")] = False,
    heatmap: Annotated[
        list[str] | None,
        typer.Option("--heatmap", metavar="F1,F2", help="Columns and rows; may be repeated."),
    ] = None,
    timeline: Annotated[
        list[str] | None,
        typer.Option("--timeline", metavar="NAMESPACE/HPA", help="Whose; may be repeated."),
    ] = None,
    unit: Annotated[
        list[str] | None,
        typer.Option("--unit", metavar="NAME", help="Only this unit (group); may be repeated."),
    ] = None,
    hpa: Annotated[
        list[str] | None,
        typer.Option(
            "--hpa", metavar="NAMESPACE/HPA", help="This HPA alone, also out of a group; repeat it."
        ),
    ] = None,
    setting: Annotated[
        str | None,
        typer.Option("--setting", metavar="N|NAME", help="Setting to mark, and to draw over time."),
    ] = None,
    slo: SloOption = None,
    minimize: MinimizeOption = None,
    measure: Annotated[
        str | None,
        typer.Option(
            "--measure",
            metavar="X,Y",
            help="Objective and harm.  [default: --minimize, and the first --slo's]",
        ),
    ] = None,
    begin: Annotated[
        str | None,
        typer.Option(
            "--from", metavar="TIME", help="Start of timelines.  [default: of the busiest day]"
        ),
    ] = None,
    length: Annotated[
        str | None, typer.Option("--for", metavar="TIME", help="Their length.  [default: a day]")
    ] = None,
    history: Annotated[
        str | None,
        typer.Option(
            "--history", metavar="HISTORY", help="For timelines.  [default: where it was swept]"
        ),
    ] = None,
    out: Annotated[
        str, typer.Option("--out", metavar="FOLDER", help="Where the pictures go.")
    ] = "pictures",
    form: Annotated[Format, typer.Option("--format", help="Form of the files.")] = Format.svg,
) -> None:
    """Draw pictures of a sweep."""
    check_stdout(Output.json)
    from hpabatch.cli.what_if.plot_pictures import PlotRequest, draw_pictures

    if setting is not None and setting.strip() == "":
        raise UsageError("--setting: give a setting's number or name, such as 12 or 'target=70'")
    drawn = draw_pictures(
        PlotRequest(
            sweep=sweep,
            front=front,
            heatmaps=tuple(heatmap or ()),
            timelines=tuple(timeline or ()),
            units=tuple(unit or ()),
            hpas=tuple(hpa or ()),
            setting=setting,
            slos=tuple(slo or ()),
            minimize=minimize,
            measure=measure,
            from_ms=None if begin is None else parse_at(begin, "--from"),
            length_ms=None if length is None else parse_duration(length, "--for", 60_000),
            history=history,
            out=out,
            form=form.value,
        )
    )
    for note in drawn.notes:
        say(f"note: {note}")
    for reason in drawn.refused:
        say(f"not drawn: {reason}")
    send_text("".join(f"{printable_line(str(path))}\n" for path in drawn.paths))
    raise typer.Exit(EXIT_REFUSED if drawn.refused else EXIT_OK)
