"""Options of pictures."""

from __future__ import annotations

from dataclasses import dataclass

from hpabatch.engine.advise.request import Aim
from hpabatch.model.options import option


@dataclass(frozen=True, kw_only=True)
class PlotRequest(Aim):
    """Pictures of a history: timelines; of a sweep: fronts, heat maps, timelines."""

    names: tuple[str, ...] = option(
        "texts",
        "These HPAs alone, also out of a group.",
        (),
        metavar="[NAMESPACE/]HPA…",
        positional=True,
        unset="of a sweep every unit, of more than 20 those with most pods",
    )
    front: bool = option("flag", "Draw objective against harm of all settings of a unit.", False)
    heatmap: tuple[str, ...] = option(
        "texts",
        "Draw objective and harm over two fields, columns and rows; may be repeated.",
        (),
        metavar="F1,F2",
    )
    timeline: tuple[str, ...] = option(
        "texts",
        "Draw this HPA over time, before and after; may be repeated.",
        (),
        metavar="[NAMESPACE/]HPA",
    )
    unit: tuple[str, ...] = option(
        "texts", "Only this unit (group); may be repeated.", (), metavar="NAME"
    )
    setting: str | None = option(
        "text", "Setting to mark, and to draw over time.", metavar="N|NAME"
    )
    measure: str | None = option(
        "text",
        "Measures of objective and harm.",
        metavar="X,Y",
        unset="--minimize, and the first --slo's",
    )
    begin: str | None = option(
        "time",
        "Start of timelines; relative times are before the end.",
        metavar="TIME",
        flag="--from",
        unset="that of the busiest day",
    )
    length_ms: int | None = option(
        "duration",
        "Length of timelines.",
        metavar="TIME",
        flag="--for",
        minimum=60_000,
        unset="a day",
    )
    history: str | None = option(
        "path",
        "History of the sweep, simulated again for timelines.",
        metavar="HISTORY",
        unset="where it was swept",
    )
    format: str = option("choice", "Form of the files.", "svg", values=("svg", "png"))
