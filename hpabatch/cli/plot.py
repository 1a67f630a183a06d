"""`hpabatch plot`: pictures of a history and of a sweep."""

from __future__ import annotations

from typing import Annotated

import typer

from hpabatch.cli.app import app, command
from hpabatch.cli.progress import progress_on_stderr
from hpabatch.cli.stdout import check_stdout, send_text
from hpabatch.cli.talk import tell
from hpabatch.errors import EXIT_OK, EXIT_REFUSED, UsageError
from hpabatch.model.printable import printable_line
from hpabatch.report.pictures.request import PlotRequest


@command(app)
def plot(
    place: Annotated[
        str,
        typer.Argument(metavar="PLACE", help="History, or folder that `hpabatch sweep` wrote."),
    ],
    request: PlotRequest,
    out: Annotated[
        str, typer.Option("--out", metavar="FOLDER", help="Folder for the pictures.")
    ] = "pictures",
) -> int:
    """Draw HPAs of a history over time; of a sweep fronts, heat maps, before and after.

    PLACE is a history, and then HPAs must be named: a picture has what was recorded, what the
    metrics asked for, what the rules decide, and the rule that made each decision. Or PLACE is the
    folder of `hpabatch sweep --out`. Pictures go to --out, their paths to stdout. Of a sweep
    without any of --front, --heatmap and --timeline it is the front of every unit, of at most 20.
    docs/plot.md explains what is drawn. Needs pip install 'hpabatch[plot]'.

    \b
    --front               objective against harm of all settings of a unit, and the front of those
                          that no other one beats.
    --heatmap F1,F2       objective and harm over two fields of the sweep's grid.
    --timeline NS/NAME    replicas, demand and saturation of an HPA, before and after: both settings
                          are simulated again, so the history must be there.

    With --slo the setting that `hpabatch recommend` would choose is marked, and drawn in timelines;
    --setting takes one of your own instead. Exit code 3: some pictures, or all, have nothing to
    show.

    \b
    Examples:
      hpabatch plot history/ shop/checkout --from '2026-10-07 08:00' --for 6h --format png
      hpabatch plot sweep/ shop/api --front --heatmap target,scaleDown.window --out pictures/
      hpabatch plot sweep/ --unit label:tier=web --slo 'saturated_minutes<10/week' --format png
      hpabatch plot sweep/ --timeline shop/api --setting 'target=70 scaleDown.window=300'
    """
    check_stdout("")
    with progress_on_stderr() as progress:
        progress("loading", 0.0)
        from hpabatch.cli.plot_pictures import draw_pictures

    if request.setting is not None and request.setting.strip() == "":
        raise UsageError("--setting: give a setting's number or name, such as 12 or 'target=70'")
    drawn = draw_pictures(request, place, out)
    tell(drawn.notes, "note")
    tell(drawn.refused, "not drawn")
    send_text("".join(f"{printable_line(str(path))}\n" for path in drawn.paths))
    return EXIT_REFUSED if drawn.refused else EXIT_OK
