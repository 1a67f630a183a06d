"""Objective and harm over two fields of a sweep's grid."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np

from hpabatch.engine.advise.objective import Goal
from hpabatch.engine.advise.unit import Array, Mask
from hpabatch.engine.sweep.result import SweepResult
from hpabatch.model.settings.values import AS_TODAY
from hpabatch.report.pictures import style as look
from hpabatch.report.pictures.data import (
    Compared,
    Marked,
    NothingToDrawError,
    compare_settings,
    place_of,
)
from hpabatch.report.pictures.grid import Side, grid_fields, parse_fields, sides_of
from hpabatch.report.pictures.scale import view_of

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_CELL_HEIGHT: Final = 32
_LONGEST_TITLE: Final = 170.0
_BESIDE: Final = 9  # columns up to which both panels stand side by side
_GAP: Final = 28
_LEGEND_HEIGHT: Final = 24
_PANEL_TITLE: Final = 24
_BELOW: Final = 46
_DARK: Final = 0.62  # from here on a cell's text is white


@dataclass(frozen=True, slots=True)
class _Cells:
    """What cells show: arrays (rows, columns), NaN without any setting.

    `how` says what a cell's value is; `broken`: no setting of it holds the SLO.
    """

    x: Array
    y: Array
    broken: Mask
    how: str


def heatmap_figure(
    result: SweepResult,
    unit: str,
    fields: tuple[str, str],
    *,
    measures: tuple[str, str] | None = None,
    goal: Goal | None = None,
    marked: Marked | None = None,
) -> Figure:
    """Draw objective and harm of a unit over two fields of the grid, in two panels.

    A cell is one setting where these are the only fields. Of several, it is the best one that holds
    the goal's SLOs, in both panels (where none does: the one that breaks them least, hatched);
    without SLOs the mean of all of them. The picture says which.

    Args:
        result: the sweep.
        unit: name of a unit, or NAMESPACE/NAME of an HPA that is one by itself.
        fields: columns and rows.
        measures, goal, marked: as in `front_figure`.

    Raises:
        UsageError: no such unit, measure, setting or field; matplotlib is not installed.
        NothingToDrawError: one setting only, or a measure is not known of any.
    """
    fields = parse_fields(result, ",".join(fields))
    compared = compare_settings(result, unit, measures, goal)
    place = place_of(compared, marked)
    columns, rows = sides_of(result, compared.unit, fields)
    inside = (columns.cells >= 0) & (rows.cells >= 0) & compared.known
    if not inside.any():
        raise NothingToDrawError(
            f"{compared.name}: no setting has values of both {fields[0]} and {fields[1]} and of "
            "both measures"
        )
    others = [name for name in grid_fields(result) if name not in fields]
    cells = _cells(compared, columns, rows, inside, goal, others)
    with look.picture_style():
        return _Heatmap(compared, columns, rows, cells, place, marked).draw()


def _cells(
    compared: Compared,
    columns: Side,
    rows: Side,
    inside: Mask,
    goal: Goal | None,
    others: list[str],
) -> _Cells:
    """Return what the cells show."""
    shape = (len(rows.names), len(columns.names))
    x, y, broken = np.full(shape, np.nan), np.full(shape, np.nan), np.zeros(shape, dtype=bool)
    most = 0
    for r, c in np.ndindex(shape):
        places = np.flatnonzero(inside & (rows.cells == r) & (columns.cells == c))
        most = max(most, places.size)
        if not places.size:
            continue
        if compared.holds is not None and compared.pressure is not None:
            held = places[compared.holds[places]]
            broken[r, c] = not held.size
            order = compared.x.values if held.size else compared.pressure
            places = held if held.size else places
            places = places[[int(np.argmin(order[places]))]]
        x[r, c] = compared.x.values[places].mean()
        y[r, c] = compared.y.values[places].mean()
    return _Cells(x, y, broken, _how(compared, goal, others, most))


def _how(compared: Compared, goal: Goal | None, others: list[str], most: int) -> str:
    """Say what a cell's value is."""
    if most <= 1:
        return "each cell is one setting"
    rest = " and ".join(others) if others else "all settings of it"
    if compared.holds is not None and goal is not None:
        slos = " and ".join(slo.text for slo in goal.slos)
        return f"each cell: of its settings with {slos} the one of least {compared.x.measure}"
    return f"each cell: mean over {rest} (up to {most:,} settings)"


@dataclass(slots=True)
class _Heatmap:
    """Draws the two panels."""

    compared: Compared
    columns: Side
    rows: Side
    cells: _Cells
    place: int | None
    marked: Marked | None

    def draw(self) -> Figure:
        """Return the picture."""
        facts = look.header_lines(
            [self.cells.how, *self.compared.facts(), f"today: {self._todays_text()}"]
        )
        top = look.header_height(facts) + _LEGEND_HEIGHT
        stacked = len(self.columns.names) > _BESIDE
        label_width = 30 + max(look.text_width(look.drawable(n), 8.5) for n in self.rows.names)
        left = look.MARGIN + min(label_width, 220)
        room = look.WIDTH - left - look.MARGIN
        width = room if stacked else (room - _GAP) / 2
        # (the rows' title stands upright beside them)
        upright = min(look.text_width(_side_title(self.rows), 9), _LONGEST_TITLE)
        height = max(_CELL_HEIGHT * len(self.rows.names), upright + 4)
        step = _PANEL_TITLE + height + _BELOW
        canvas = look.Canvas(round(top + step * (2 if stacked else 1)))
        look.draw_header(canvas, self._title(), facts)
        self._legend(canvas, top - 14)
        panels = (
            (self.compared.x, self.cells.x, "Blues"),
            (self.compared.y, self.cells.y, "Purples"),
        )
        for k, (axis, values, colors) in enumerate(panels):
            x = left if stacked else left + k * (width + _GAP)
            y = top + _PANEL_TITLE + (k * step if stacked else 0)
            title = look.shortened(axis.title, width, 9, bold=True)
            canvas.text(x, y - 8, title, 9, bold=True)
            axes = canvas.axes(x, y, width, height)
            self._panel(axes, values, colors, width / len(self.columns.names))
            self._sides(axes, width, with_rows=stacked or k == 0, room=min(label_width, 220) - 28)
        return canvas.figure

    def _title(self) -> str:
        names = f"{self.columns.field} and {self.rows.field}"
        return f"{look.drawable(self.compared.name)}: what {names} change"

    def _todays_text(self) -> str:
        parts = []
        for axis in (self.compared.x, self.compared.y):
            value = float(axis.values[0])
            known = look.amount(value) if np.isfinite(value) else "unknown"
            parts.append(f"{known} {axis.title}")
        return ", ".join(parts)

    def _today(self) -> tuple[int, int] | None:
        if self.columns.today is None or self.rows.today is None:
            return None
        return self.rows.today, self.columns.today

    def _chosen(self) -> tuple[int, int] | None:
        """Return the cell of the marked setting; today's own is framed anyway."""
        if self.place is None:
            return None
        r, c = int(self.rows.cells[self.place]), int(self.columns.cells[self.place])
        return (r, c) if r >= 0 and c >= 0 else None

    def _legend(self, canvas: look.Canvas, middle: float) -> None:
        """Say above the panels what frames and hatches are."""
        entries: list[tuple[str, str]] = []
        if self._today() is not None:
            entries.append((look.VERMILION, "today's values"))
        if self._chosen() is not None and self.marked is not None:
            entries.append((look.GREEN, f"{self.marked.word} setting"))
        left = float(look.MARGIN)
        for color, text in entries:
            _frame(
                canvas.figure,
                left / canvas.width,
                1 - (middle + 6) / canvas.height,
                16 / canvas.width,
                12 / canvas.height,
                color,
            )
            canvas.text(left + 22, middle + 3.5, text, 8, color=look.GREY)
            left += 22 + look.text_width(text, 8) + 20
        told = ["paler is less"]
        if self._today() is None:
            told.append("today's values are not in the grid")
        if self.cells.broken.any():
            told.append("hatched: none of the settings there holds the SLO")
        if np.isnan(self.cells.x).any():
            told.append("–: no setting")
        text = look.shortened(" · ".join(told), canvas.width - look.MARGIN - left, 8)
        canvas.text(left, middle + 3.5, text, 8, color=look.GREY)

    def _panel(self, axes: Axes, values: Array, colors: str, cell_width: float) -> None:
        """Draw cells with their numbers."""
        import matplotlib as mpl
        from matplotlib.patches import Rectangle

        known = values[np.isfinite(values)]
        places = view_of(known, known.tolist()).position(values)
        low, high = np.nanmin(places), np.nanmax(places)
        shares = (places - low) / ((high - low) or 1.0)
        palette = mpl.colormaps[colors]
        texts = {
            cell: look.short_amount(float(v))
            for cell, v in np.ndenumerate(values)
            if np.isfinite(v)
        }
        size = _fitting([*texts.values()], cell_width - 4)
        for (r, c), share in np.ndenumerate(shares):
            text = texts.get((r, c))
            face = palette(0.04 + 0.78 * share) if text is not None else "#f3f4f6"
            axes.add_patch(Rectangle((c, r), 1, 1, facecolor=face, edgecolor="white", linewidth=1))
            ink = "white" if text is not None and share > _DARK else look.INK
            if self.cells.broken[r, c]:
                axes.add_patch(
                    Rectangle(
                        (c, r), 1, 1, fill=False, hatch="////", edgecolor=look.PALE, linewidth=0
                    )
                )
            axes.text(
                c + 0.5,
                r + 0.5,
                "–" if text is None else text,
                ha="center",
                va="center_baseline",
                fontsize=size,
                color=ink if text is not None else look.GREY,
                path_effects=look.halo() if self.cells.broken[r, c] and ink != "white" else None,
            )
        self._frames(axes)

    def _frames(self, axes: Axes) -> None:
        """Frame today's cell and the marked setting's."""
        from matplotlib.patches import Rectangle

        today, chosen = self._today(), self._chosen()
        for cell, color, room in (
            (today, look.VERMILION, 0.0),
            (chosen, look.GREEN, 0.06 if chosen == today else 0.0),
        ):
            if cell is not None:
                axes.add_patch(
                    Rectangle(
                        (cell[1] + room, cell[0] + room),
                        1 - 2 * room,
                        1 - 2 * room,
                        fill=False,
                        edgecolor=color,
                        linewidth=2.4,
                        zorder=5,
                        joinstyle="miter",
                        clip_on=False,
                    )
                )

    def _sides(self, axes: Axes, width: float, with_rows: bool, room: float) -> None:
        """Write the values of the fields beside the cells."""
        names = self.columns.names
        axes.set_xlim(0, len(names))
        axes.set_ylim(0, len(self.rows.names))
        axes.grid(False)
        axes.tick_params(length=0)
        for spine in axes.spines.values():
            spine.set_visible(False)
        each = width / len(names) - 6
        size = _fitting([look.drawable(name) for name in names], each)
        shown = [look.shortened(look.drawable(name), each, size) for name in names]
        axes.set_xticks(np.arange(len(names)) + 0.5, shown, fontsize=size)
        axes.set_xlabel(_side_title(self.columns))
        if with_rows:
            shown = [look.shortened(look.drawable(n), room, 8.5) for n in self.rows.names]
            axes.set_yticks(np.arange(len(self.rows.names)) + 0.5, shown)
            axes.set_ylabel(look.shortened(_side_title(self.rows), _LONGEST_TITLE))
        else:
            axes.set_yticks([])


def _frame(
    figure: Figure, left: float, low: float, width: float, height: float, color: str
) -> None:
    from matplotlib.patches import Rectangle

    figure.add_artist(
        Rectangle((left, low), width, height, fill=False, edgecolor=color, linewidth=2)
    )


def _fitting(texts: list[str], width: float) -> float:
    """Return the size at which all texts are at most that wide."""
    widest = max(texts, key=len, default="")
    return next((s for s in (8.5, 8.0, 7.5, 7.0, 6.5) if look.text_width(widest, s) <= width), 6.0)


def _side_title(side: Side) -> str:
    """Return a field with the unit of its values."""
    values = [name for name in side.names if name != AS_TODAY]
    if all(name[:1] in ("x", "+", "-", "±") for name in values):
        return f"{side.field} (against today's)"
    if side.field.endswith(".window"):
        return f"{side.field} (s)"
    plain = all(name.replace("–", "").replace(".", "").isdigit() for name in values)
    return f"{side.field} (%)" if side.field == "target" and plain else side.field
