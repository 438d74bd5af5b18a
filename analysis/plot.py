"""What all figures share: colours that the colour-blind tell apart, line styles for print, files of the same bytes each
time."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from analysis.rows import METHOD_ORDER

COLOURS = ("#000000", "#E69F00", "#56B4E9", "#009E73", "#CC79A7", "#0072B2", "#D55E00", "#7F7F7F")
"""Okabe and Ito's, without the yellow, which is too light on paper."""
STYLES = ("-", "--", "-.", ":")
MARKERS = ("o", "s", "^", "D", "v", "P", "X", "*")
_DPI = 150


def pyplot() -> Any:
    """matplotlib's ``pyplot``, which draws to files alone. Imported late: tables need none of it."""
    import matplotlib

    matplotlib.use("Agg")
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
