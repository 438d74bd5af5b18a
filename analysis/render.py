"""Sheets of results as CSV, Markdown and LaTeX.

A :class:`Sheet` holds the same results twice: ``data`` with every column and full numbers (CSV) and
``body`` with the few columns a reader wants, already as text (Markdown and LaTeX).
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import pandas as pd

DASH = "—"
"""Stands for a value that does not exist (an SD of one seed), in every table that people read."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Sheet:
    """One table. ``name`` is the file name without suffix; ``lead`` stands above the table, ``notes`` below;
    ``text_columns`` are the columns of ``body`` that hold words (set left; all others are set right)."""

    name: str
    title: str
    lead: tuple[str, ...]
    data: pd.DataFrame
    body: pd.DataFrame
    text_columns: frozenset[str]
    notes: tuple[str, ...]


def number(value: float | None, decimals: int = 2) -> str:
    """A number as it is printed; a dash where there is none."""
    return DASH if value is None or pd.isna(value) else f"{value:.{decimals}f}"


def csv(sheet: Sheet) -> str:
    """All columns. A value that does not exist is an empty cell, as in the papers' CSV files."""
    # six decimals: enough to compute with, few enough to be the same on every machine
    return sheet.data.round(6).to_csv(index=False, lineterminator="\n")


def markdown(sheet: Sheet) -> str:
    """The compact table, padded so that it also reads well in a terminal."""
    columns = [str(c) for c in sheet.body.columns]
    rows = [[_md_cell(c) for c in columns], *([_md_cell(v) for v in row] for row in _rows(sheet.body))]
    widths = [max(3, *(len(row[i]) for row in rows)) for i in range(len(columns))]
    left = [c in sheet.text_columns for c in columns]
    lines = [
        "| "
        + " | ".join(c.ljust(w) if is_left else c.rjust(w) for c, w, is_left in zip(row, widths, left, strict=True))
        + " |"
        for row in rows
    ]
    rule = (
        "|"
        + "|".join(
            f":{'-' * (w + 1)}" if is_left else f"{'-' * (w + 1)}:" for w, is_left in zip(widths, left, strict=True)
        )
        + "|"
    )
    parts = [f"# {sheet.title}", *sheet.lead, "\n".join([lines[0], rule, *lines[1:]])]
    if sheet.notes:
        parts.append("\n".join(f"- {note}" for note in sheet.notes))
    return "\n\n".join(parts) + "\n"


def latex(sheet: Sheet) -> str:
    """The compact table for a paper: a ``table`` with booktabs rules, lead in the caption, notes below."""
    columns = [str(c) for c in sheet.body.columns]
    caption = " ".join(tex(_sentence(text)) for text in (sheet.title, *sheet.lead))
    spec = "".join("l" if c in sheet.text_columns else "r" for c in columns)
    return "\n".join(
        [
            r"% needs \usepackage{booktabs}",
            r"\begin{table}",
            r"\centering",
            rf"\caption{{{caption}}}",
            rf"\label{{tab:{sheet.name}}}",
            rf"\begin{{tabular}}{{{spec}}}",
            r"\toprule",
            _tex_row(columns),
            r"\midrule",
            *(_tex_row(row) for row in _rows(sheet.body)),
            r"\bottomrule",
            r"\end{tabular}",
            *(rf"\par\footnotesize {tex(_sentence(note))}" for note in sheet.notes),
            r"\end{table}",
            "",
        ]
    )


_TEX = str.maketrans(
    {
        "\\": r"\textbackslash{}",
        "~": r"\textasciitilde{}",
        "^": r"\textasciicircum{}",
        "<": r"\textless{}",
        ">": r"\textgreater{}",
        "|": r"\textbar{}",
        **{c: rf"\{c}" for c in "&%$#_{}"},
        "—": "--",
        "–": "--",
        "±": r"$\pm$",
        "†": r"$^\dagger$",
        "§": r"\S{}",
        "\n": " ",
        "\r": " ",
    }
)


def tex(text: str) -> str:
    """Plain text as LaTeX source: special characters escaped, ours (dash, dagger) spelt out."""
    return text.translate(_TEX)


def write(sheet: Sheet, folder: Path) -> list[Path]:
    """Write ``<name>.csv``, ``.md`` and ``.tex`` below ``folder`` and return their paths. A reader never
    sees half a file: each is written beside its place and then renamed. Raises ``OSError``."""
    folder.mkdir(parents=True, exist_ok=True)
    texts = {"csv": csv(sheet), "md": markdown(sheet), "tex": latex(sheet)}
    paths = []
    for suffix, text in texts.items():
        path = folder / f"{sheet.name}.{suffix}"
        draft = folder / f".{path.name}.{os.getpid()}.tmp"
        try:
            draft.write_bytes(text.encode())
            draft.replace(path)
        finally:
            draft.unlink(missing_ok=True)
        paths.append(path)
    return paths


def _rows(body: pd.DataFrame) -> Iterable[list[str]]:
    return ([DASH if pd.isna(v) else str(v) for v in row] for row in body.itertuples(index=False, name=None))


def _md_cell(text: str) -> str:
    return " ".join(text.replace("|", r"\|").splitlines())


def _tex_row(cells: Iterable[str]) -> str:
    return " & ".join(tex(c) for c in cells) + r" \\"


def _sentence(text: str) -> str:
    return text if text.endswith((".", "!", "?")) else f"{text}."
