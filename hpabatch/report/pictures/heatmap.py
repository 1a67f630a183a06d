"""The heat map: objective and harm over two fields of a sweep's grid."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

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
    from matplotlib.patches import Rectangle

_CELL_HEIGHT: Final = 32
_LABEL_WIDTH: Final = 190  # pixels of a row's name, at most
_BESIDE: Final = 9  # columns up to which both panels stand side by side
_DARK: Final = 0.62  # from here on a cell's text is white
_EMPTY: Final = "#f3f4f6"


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
        stacked = len(self.columns.names) > _BESIDE
        labels = [look.text_width(look.drawable(name), 8.5) for name in self.rows.names]
        room = look.WIDTH - 70 - min(max(labels), _LABEL_WIDTH)
        cell = (room if stacked else room / 2 - 20) / len(self.columns.names)
        # The rows' title stands upright beside them.
        upright = look.text_width(_shortened_title(self.rows), 9)
        height = 80 + max(_CELL_HEIGHT * len(self.rows.names), upright)
        names = f"{self.columns.field} and {self.rows.field}"
        title = f"{look.drawable(self.compared.name)}: what {names} change"
        frames = list(self._frames())
        signs = [self._frame(*each) for each in frames]
        figure = look.new_figure(title, self._facts(), signs, height * (2 if stacked else 1))
        grid: Any = figure.subplots(*((2, 1) if stacked else (1, 2)), sharex=True, sharey=True)
        self._panel(grid[0], self.compared.x.title, self.cells.x, "Blues", cell)
        self._panel(grid[1], self.compared.y.title, self.cells.y, "Purples", cell)
        for axes in grid:
            for each in frames:
                axes.add_patch(self._frame(*each))
            if stacked or axes is grid[0]:
                axes.set_ylabel(_shortened_title(self.rows))
            axes.tick_params(labelbottom=True, labelleft=stacked or axes is grid[0])
        return figure

    def _facts(self) -> list[str]:
        """Return the text below the title."""
        parts = []
        for axis in (self.compared.x, self.compared.y):
            value = float(axis.values[0])
            known = look.amount(value) if np.isfinite(value) else "unknown"
            parts.append(f"{known} {axis.title}")
        told = [self.cells.how, *self.compared.facts(), f"today: {', '.join(parts)}"]
        if self.columns.today is None or self.rows.today is None:
            told.append("today's values are not in the grid")
        told.append("paler is less")
        if self.cells.broken.any():
            told.append("hatched: none of the settings there holds the SLO")
        if np.isnan(self.cells.x).any():
            told.append("–: no setting")
        return told

    def _frames(self) -> Iterator[tuple[int, int, float, str, str]]:
        """Yield row, column, margin, color and label of the cells that are framed."""
        today = self.rows.today, self.columns.today
        if today[0] is not None and today[1] is not None:
            yield today[0], today[1], 0.0, look.VERMILION, "today's values"
        if self.place is not None and self.marked is not None:
            r, c = int(self.rows.cells[self.place]), int(self.columns.cells[self.place])
            if r >= 0 and c >= 0:
                margin = 0.06 if (r, c) == today else 0.0
                yield r, c, margin, look.GREEN, f"{self.marked.word} setting"

    @staticmethod
    def _frame(row: int, column: int, margin: float, color: str, label: str) -> Rectangle:
        from matplotlib.patches import Rectangle

        side = 1 - 2 * margin
        return Rectangle(
            (column + margin, row + margin), side, side, fill=False, edgecolor=color,
            linewidth=2.4, zorder=5, joinstyle="miter", clip_on=False, label=label,
        )  # fmt: skip

    def _panel(self, axes: Axes, title: str, values: Array, colors: str, cell: float) -> None:
        """Draw cells with their numbers, and the values of the fields beside them."""
        import matplotlib as mpl
        from matplotlib.colors import ListedColormap, Normalize, SymLogNorm
        from matplotlib.patches import Rectangle

        known = values[np.isfinite(values)]
        ends: Any = {"vmin": known.min(), "vmax": known.max()}
        linear = view_of(known, known.tolist()).linear
        norm = Normalize(**ends) if linear is None else SymLogNorm(linear, **ends)
        palette = ListedColormap(mpl.colormaps[colors](np.linspace(0.04, 0.82, 256)), bad=_EMPTY)
        axes.pcolormesh(values, cmap=palette, norm=norm, edgecolors="white", linewidth=0.7)
        for r, c in np.argwhere(self.cells.broken).tolist():
            axes.add_patch(Rectangle((c, r), 1, 1, fill=False, hatch="////", edgecolor=look.PALE,
                                     linewidth=0))  # fmt: skip
        texts = [look.short_amount(float(value)) for value in known]
        size = _fitting(texts, cell - 4)
        for (r, c), value in np.ndenumerate(values):
            empty = not np.isfinite(value)
            dark = not empty and norm(value) > _DARK
            axes.text(
                c + 0.5, r + 0.5, "–" if empty else look.short_amount(float(value)),
                ha="center", va="center_baseline", fontsize=size,
                color=look.GREY if empty else "white" if dark else look.INK,
                path_effects=look.halo() if self.cells.broken[r, c] and not dark else None,
            )  # fmt: skip
        self._sides(axes, cell - 6)
        axes.set_title(look.shortened(title, cell * len(self.columns.names), 9, bold=True))

    def _sides(self, axes: Axes, width: float) -> None:
        """Write the values of the fields beside the cells."""
        names = [look.drawable(name) for name in self.columns.names]
        size = _fitting(names, width)
        shown = [look.shortened(name, width, size) for name in names]
        axes.set_xticks(np.arange(len(names)) + 0.5, shown, fontsize=size)
        names = [look.drawable(name) for name in self.rows.names]
        shown = [look.shortened(name, _LABEL_WIDTH, 8.5) for name in names]
        axes.set_yticks(np.arange(len(names)) + 0.5, shown)
        axes.set_xlabel(_side_title(self.columns))
        axes.grid(False)
        axes.tick_params(length=0)
        axes.spines[:].set_visible(False)


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


def _shortened_title(side: Side) -> str:
    return look.shortened(_side_title(side), 170)
