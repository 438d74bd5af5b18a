"""The declared tables of the ARC paper: ``python -m analysis.arc_tables [NAME ...] [--runs DIR] [--tables DIR]``.

Each spec of ``conf/tables`` (all of them without a NAME) becomes ``<name>.csv``, ``.md`` and ``.tex``: the figures
from our records, the paper's beside them, and what is not there yet. Scripted runs make ``mechanism_<name>``. An index
of the folder goes to ``index.md`` and ``index.html``. Tables that are named are printed too. Exit status 2, with one
line on standard error, for bad input.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from html import escape
from pathlib import Path
from urllib.parse import quote

import pandas as pd

from analysis import arc_accuracy, arc_mcnemar, arc_roofline, declared, frames, render, serving
from analysis.compare import PAIRED, Statistics
from analysis.declared import ACCURACY, COMPLETE, INCOMPLETE, MARGIN, MISSING, ROOFLINE, Spec
from analysis.reference import PAPER, Reference
from analysis.render import DASH, Sheet
from analysis.roofline import CACHED, SWITCHES, Switches
from arcbench.records import Frames, RunError
from arcbench.types import ConfigError

INDEX, PAGE = "index.md", "index.html"
FIGURES = Path("../figures")
"""Of the page's folder: where ``analysis.figures`` writes."""


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command and return its exit status."""
    parser = argparse.ArgumentParser(prog="python -m analysis.arc_tables", description="Declared tables of the paper.")
    parser.add_argument("names", nargs="*", metavar="NAME", help="tables to write, such as arc_table07 (all)")
    parser.add_argument("--runs", type=Path, default=Path("results/runs"), help="folder below which all runs are read")
    parser.add_argument("--tables", type=Path, default=Path("results/tables"), help="folder that the tables go to")
    parser.add_argument("--specs", type=Path, default=declared.FOLDER, help="folder with one YAML file a table")
    parser.add_argument("--paper", type=Path, default=PAPER, help="folder with the paper's figures")
    parser.add_argument("--settings", type=Path, default=PAIRED, help="numbers of the statistics")
    parser.add_argument("--roofline", type=Path, default=SWITCHES, help="what the paper's roofline leaves open")
    args = parser.parse_args(argv)
    try:
        specs = specs_of(args.specs, args.names)
        given = Given.read(args.paper, args.settings, args.roofline)
        write(specs, read(args.runs, given), given, args.tables, show=bool(args.names))
    except (ConfigError, RunError, OSError) as fault:
        print(" ".join(str(fault).split("\n")), file=sys.stderr)
        return 2
    return 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Given:
    """What tables are made with beside the runs."""

    reference: Reference
    statistics: Statistics
    switches: Switches

    @classmethod
    def read(cls, paper: Path = PAPER, settings: Path = PAIRED, roofline: Path = SWITCHES) -> Given:
        """From the files. Raises :class:`ConfigError`, ``OSError``."""
        return cls(reference=Reference(paper), statistics=Statistics.read(settings), switches=Switches.read(roofline))


def read(root: Path, given: Given) -> Frames:
    """The runs below a folder; where the roofline's prefill is cached, with what a prefix cache serves of each call.
    Raises as :func:`analysis.frames.load`."""
    if given.switches.prefill == CACHED:
        return serving.read(root, serving.Settings.read().cache_block_tokens)
    return frames.load(root)


def specs_of(folder: Path, names: Sequence[str] = ()) -> list[Spec]:
    """The declared tables of these names, or all of a folder. Raises :class:`ConfigError`."""
    names = names or sorted(path.stem for path in folder.glob("*.yaml"))
    return [Spec.read(folder / f"{name}.yaml") for name in names]


def write(specs: Sequence[Spec], read: Frames, given: Given, folder: Path, *, show: bool) -> None:
    """Write the sheets of these tables, and the index of the folder; ``show`` prints them too."""
    for spec in specs:
        for sheet in sheets(spec, read, given):
            if show:
                print(render.markdown(sheet))
            print(f"wrote {', '.join(map(str, render.write(sheet, folder)))}")
    for path in write_index(folder):
        print(f"wrote {path}")


def sheets(spec: Spec, read: Frames, given: Given) -> Iterator[Sheet]:
    """The sheets of one table: of models, with whatever it lacks, and of the scripted engine where it was run. Raises
    :class:`ConfigError` as :func:`analysis.declared.cells` and :func:`analysis.declared.paper_of`."""
    published = declared.paper_of(spec, given.reference)
    for scripted in (False, True):
        rows = declared.cells(spec, read.runs, read.episodes, scripted=scripted)
        if not rows:
            continue
        if spec.kind == ACCURACY:
            made = [arc_accuracy.sheet(spec, rows, published, scripted=scripted)]
        elif spec.kind == MARGIN:
            made = [arc_accuracy.margin_sheet(spec, rows, published, scripted=scripted)]
        elif spec.kind == ROOFLINE:
            frames_of = (read.episodes, read.calls)
            made = list(arc_roofline.sheets(spec, rows, *frames_of, published, given.switches, scripted=scripted))
        else:
            made = list(arc_mcnemar.sheets(spec, rows, read.episodes, published, given.statistics, scripted=scripted))
        strays = tuple(declared.strays(spec, read.runs, scripted=scripted))
        yield from (replace(sheet, notes=(*sheet.notes, *strays)) for sheet in made)


# ------------------------------------------------------------------------------------------ index


def write_index(folder: Path) -> Iterator[Path]:
    """Write both pages of the index."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, page in ((INDEX, index(folder)), (PAGE, html(folder))):
        (folder / name).write_text(page, "utf-8")
        yield folder / name


def index(folder: Path) -> str:
    """The page that lists the sheets of a folder: title, and for declared tables the rows by their state."""
    body = []
    for path in sorted(folder.glob("*.md")):
        if path.name == INDEX:
            continue
        with path.open(encoding="utf-8") as file:
            title = file.readline().removeprefix("#").strip()
        body.append({"table": f"[{path.stem}]({path.name})", "title": title} | _states(path.with_suffix(".csv")))
    page = Sheet(
        name="index",
        title="Tables",
        lead=("Rows: those whose planned tasks all have an outcome, those that lack some, and those without a run.",),
        data=pd.DataFrame(),
        body=pd.DataFrame(body, columns=["table", "title", COMPLETE, INCOMPLETE, MISSING]),
        text_columns=frozenset({"table", "title"}),
        notes=(),
    )
    return render.markdown(page)


def html(folder: Path) -> str:
    """The same as a page for a browser, which opens from the disk: each table by its files, and every figure there is,
    those of the tables' folder and of :data:`FIGURES`. Nothing is loaded from elsewhere."""
    rows = []
    for path in sorted(folder.glob("*.md")):
        if path.name != INDEX:
            with path.open(encoding="utf-8") as file:
                title = escape(file.readline().removeprefix("#").strip())
            files = " ".join(
                f'<a href="{quote(path.stem)}.{suffix}">{suffix}</a>'
                for suffix in ("md", "csv", "tex")
                if path.with_suffix(f".{suffix}").exists()
            )
            cells = "".join(f"<td>{count}</td>" for count in _states(path.with_suffix(".csv")).values())
            rows.append(f"<tr><td>{escape(path.stem)}</td><td>{title}</td><td>{files}</td>{cells}</tr>")
    drawn = [path.name for path in sorted(folder.glob("*.svg"))]
    drawn += [str(FIGURES / path.name) for path in sorted((folder / FIGURES).glob("*.svg"))]
    shown = "".join(
        f'<figure><img src="{quote(name)}" alt="{escape(Path(name).stem)}"><figcaption>{escape(Path(name).stem)}'
        "</figcaption></figure>"
        for name in drawn
    )
    return (
        '<!doctype html><html lang="en"><meta charset="utf-8"><title>arcbench: tables and figures</title>'
        "<style>body{font:15px sans-serif;margin:2em}td,th{padding:2px 10px;text-align:left}"
        "img{max-width:100%}</style><h1>Tables</h1><table><tr><th>table<th>title<th>files"
        f"<th>{COMPLETE}<th>{INCOMPLETE}<th>{MISSING}</tr>{''.join(rows)}</table><h1>Figures</h1>"
        f"{shown or '<p>None yet: make figures.</p>'}</html>\n"
    )


def _states(path: Path) -> dict[str, str]:
    """Rows by state; dashes where a table is no declared one."""
    try:
        found = pd.read_csv(path, usecols=["state"])["state"].value_counts()
    except (OSError, ValueError):
        return dict.fromkeys((COMPLETE, INCOMPLETE, MISSING), DASH)
    return {state: str(found.get(state, 0)) for state in (COMPLETE, INCOMPLETE, MISSING)}


if __name__ == "__main__":
    sys.exit(main())
