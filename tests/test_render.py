"""Sheets as CSV, Markdown and LaTeX."""

from __future__ import annotations

import io
import math
from pathlib import Path

import pandas as pd

from analysis.render import Sheet, csv, latex, markdown, number, tex, write


def sheet(note: str = "") -> Sheet:
    return Sheet(
        name="accuracy_needle",
        title="Accuracy on needle",
        lead=("budget paper_8b",),
        data=pd.DataFrame(
            {
                "method": ["arc", "full_context"],
                "variant": ["", "a|b"],
                "n_success": [2, 0],
                "accuracy_pct": [200 / 3, math.nan],
            }
        ),
        body=pd.DataFrame(
            {
                "method": ["arc †", "full_context"],
                "variant": ["—", "a|b"],
                "accuracy %": [number(200 / 3), number(math.nan)],
            }
        ),
        text_columns=frozenset({"method", "variant"}),
        notes=(note,) if note else (),
    )


def test_numbers_have_two_decimals_and_what_does_not_exist_is_a_dash() -> None:
    assert [number(36.8), number(0.0), number(99.995, 1), number(math.nan), number(None)] == [
        "36.80",
        "0.00",
        "100.0",
        "—",
        "—",
    ]


def test_csv_keeps_counts_whole_and_leaves_missing_cells_empty() -> None:
    text = csv(sheet())
    assert text.splitlines() == ["method,variant,n_success,accuracy_pct", "arc,,2,66.666667", "full_context,a|b,0,"]
    assert list(pd.read_csv(io.StringIO(text))["n_success"]) == [2, 0]


def test_markdown_is_padded_and_escapes_the_column_mark() -> None:
    assert markdown(sheet("one note")).splitlines() == [
        "# Accuracy on needle",
        "",
        "budget paper_8b",
        "",
        "| method       | variant | accuracy % |",
        "|:-------------|:--------|-----------:|",
        "| arc †        | —       |      66.67 |",
        r"| full_context | a\|b    |          — |",
        "",
        "- one note",
    ]


def test_markdown_shows_a_stray_nan_as_a_dash() -> None:
    plain = sheet()
    stray = Sheet(
        name=plain.name,
        title=plain.title,
        lead=(),
        data=plain.data,
        body=plain.data,
        text_columns=plain.text_columns,
        notes=(),
    )
    assert "nan" not in (markdown(stray) + latex(stray)).lower()


def test_latex_is_a_booktabs_table_with_everything_escaped() -> None:
    lines = latex(sheet("50 % of a_b")).splitlines()
    assert r"\caption{Accuracy on needle. budget paper\_8b.}" in lines
    assert r"\begin{tabular}{llr}" in lines
    assert r"method & variant & accuracy \% \\" in lines
    assert r"arc $^\dagger$ & -- & 66.67 \\" in lines
    assert r"full\_context & a\textbar{}b & -- \\" in lines
    assert r"\par\footnotesize 50 \% of a\_b." in lines
    rules = [r"\toprule", r"\midrule", r"\bottomrule"]
    assert [line for line in lines if line.endswith("rule")] == rules


def test_tex_escapes_each_character_once() -> None:
    assert tex(r"\_{") == r"\textbackslash{}\_\{"
    assert tex("a&b#c$d~e^f<g>h") == r"a\&b\#c\$d\textasciitilde{}e\textasciicircum{}f\textless{}g\textgreater{}h"


def test_files_are_replaced_whole_and_nothing_else_is_left(tmp_path: Path) -> None:
    folder = tmp_path / "tables"
    paths = write(sheet("old"), folder)
    assert [p.name for p in paths] == ["accuracy_needle.csv", "accuracy_needle.md", "accuracy_needle.tex"]
    with paths[1].open(encoding="utf-8") as reader:  # a reader that opened the old file reads all of it
        write(sheet("new"), folder)
        assert reader.read() == markdown(sheet("old"))
    assert paths[1].read_text("utf-8") == markdown(sheet("new"))
    assert sorted(p.name for p in folder.iterdir()) == sorted(p.name for p in paths)
