"""What all figures share: colours that the colour-blind tell apart, line styles for print, panels and their names, and
files of the same bytes each time."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pandas as pd

from analysis.rows import METHOD_ORDER, place, records_of

COLOURS = ("#000000", "#E69F00", "#56B4E9", "#009E73", "#CC79A7", "#0072B2", "#D55E00", "#7F7F7F")
"""Okabe and Ito's, without the yellow, which is too light on paper."""
STYLES = ("-", "--", "-.", ":")
MARKERS = ("o", "s", "^", "D", "v", "P", "X", "*")
_DPI = 150
_TITLE_CHARS = 60


def pyplot() -> Any:
    """matplotlib's ``pyplot``, which draws to files alone. Imported late: tables need none of it."""
    import matplotlib

    matplotlib.use("Agg")
    matplotlib.rcParams["text.parse_math"] = False  # a name may hold dollar signs
    from matplotlib import pyplot

    return pyplot


def look(method: str) -> dict[str, str]:
    """Colour, line style and marker of a method, the same in every figure."""
    at = METHOD_ORDER.index(method) if method in METHOD_ORDER else sum(map(ord, method))
    return {
        "color": COLOURS[at % len(COLOURS)],
        "linestyle": STYLES[(at + at // len(COLOURS)) % len(STYLES)],
        "marker": MARKERS[(at + at // len(COLOURS)) % len(MARKERS)],
    }


def save(figure: Any, stem: Path) -> list[Path]:
    """Write ``<stem>.svg`` and ``.png``, close the figure, return the paths."""
    import matplotlib

    stem.parent.mkdir(parents=True, exist_ok=True)
    paths = [stem.with_name(f"{stem.name}.{suffix}") for suffix in ("svg", "png")]
    with matplotlib.rc_context({"svg.hashsalt": stem.name}):
        for path in paths:
            figure.savefig(path, dpi=_DPI, metadata={"Date": None} if path.suffix == ".svg" else None)
    pyplot().close(figure)
    return paths


def show(paths: Sequence[Path], otherwise: str = "nothing to draw here") -> None:
    """The picture of a figure that was saved in a notebook; its files' names everywhere else."""
    try:
        from IPython import get_ipython
        from IPython.display import Image, display
    except ImportError:
        get_ipython = None
    for path in paths:
        print(path)
        if get_ipython is not None and get_ipython() is not None and path.suffix == ".png":
            display(Image(filename=path))
    if not paths:
        print(otherwise)


def panels(rows: pd.DataFrame) -> dict[str, list[dict[str, Any]]]:
    """The rows that belong together, by what they share, methods in their usual order. Rows have the columns of
    :func:`analysis.accuracy.accuracy` and of :func:`analysis.rows.settings_apart`."""
    found: dict[str, list[dict[str, Any]]] = {}
    for row in records_of(rows):
        if row["n_run"]:
            found.setdefault(title(row), []).append(row)
    return found


def title(row: Mapping[str, Any], keys: Sequence[str] = ("model", "budget", "profile", "recall")) -> str:
    """What the rows of a panel share, in lines that are no longer than a panel is wide."""
    named = " ".join(str(row[key]) for key in keys if row[key])
    return "\n".join([named, *textwrap.wrap(row["shared"], _TITLE_CHARS)])


def label(row: Mapping[str, Any]) -> str:
    """What a row is called within its panel."""
    own = ", ".join(part for part in (row["variant"], row["own"]) if part)
    return f"{row['method']} ({own})" if own else str(row["method"])


def grid(count: int, *, height: float, wide: float = 4.6, most: int = 3) -> tuple[Any, list[Any]]:
    """A figure with so many panels of a height and width in inches, at most so many in a row."""
    columns = min(most, count)
    lines = -(-count // columns)
    figure, axes = pyplot().subplots(
        lines, columns, figsize=(wide * columns + 1.6, height * lines), layout="constrained", squeeze=False
    )
    flat = list(axes.flat)
    for axis in flat[count:]:
        axis.set_visible(False)
    return figure, flat[:count]


def legend(figure: Any, axes: Sequence[Any]) -> None:
    """One legend for all panels, each name once."""
    named = {name: handle for axis in axes for handle, name in zip(*axis.get_legend_handles_labels(), strict=True)}
    names = sorted(named, key=lambda name: place(name.partition(" ")[0]))
    figure.legend([named[name] for name in names], names, loc="outside right center", fontsize=8)


def bar_rows(axis: Any, rows: Sequence[Mapping[str, Any]], most: int) -> None:
    """Name the rows of horizontal bars, the first on top, as tall as in the panel that has the most."""
    axis.set_yticks(range(len(rows)), [label(row) for row in rows], fontsize=8)
    axis.set_ylim(most - 0.5, -0.5)


def bar_panels(panels: Mapping[str, Sequence[Any]], *, a_panel: int = 1) -> tuple[Any, list[Any], int]:
    """A figure of bars with so many panels for each name, its axes, and the rows of the panel that has the most."""
    most = max(map(len, panels.values()))
    return *grid(a_panel * len(panels), height=0.32 * most + 1.2, most=3 if a_panel == 1 else a_panel), most
