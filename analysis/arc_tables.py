"""The declared tables of the ARC paper: ``python -m analysis.arc_tables [NAME ...] [--runs DIR] [--tables DIR]``.

Each spec of ``conf/tables`` (all of them without a NAME) becomes ``<name>.csv``, ``.md`` and ``.tex``: the figures
from our records, the paper's beside them, and what is not there yet. Scripted runs make ``mechanism_<name>``. An index
of the folder goes to ``index.md``. Tables that are named are printed too. Exit status 2, with one line on standard
error, for bad input.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import pandas as pd

from analysis import arc_accuracy, arc_mcnemar, declared, frames, render
from analysis.compare import PAIRED, Statistics
from analysis.declared import ACCURACY, COMPLETE, INCOMPLETE, MARGIN, MISSING, Spec
from analysis.reference import PAPER, Reference
from analysis.render import DASH, Sheet
from arcbench.records import Frames, RunError
from arcbench.types import ConfigError

INDEX = "index.md"


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command and return its exit status."""
    parser = argparse.ArgumentParser(prog="python -m analysis.arc_tables", description="Declared tables of the paper.")
    parser.add_argument("names", nargs="*", metavar="NAME", help="tables to write, such as arc_table07 (all)")
    parser.add_argument("--runs", type=Path, default=Path("results/runs"), help="folder below which all runs are read")
    parser.add_argument("--tables", type=Path, default=Path("results/tables"), help="folder that the tables go to")
    parser.add_argument("--specs", type=Path, default=declared.FOLDER, help="folder with one YAML file a table")
    parser.add_argument("--paper", type=Path, default=PAPER, help="folder with the paper's figures")
    parser.add_argument("--settings", type=Path, default=PAIRED, help="numbers of the statistics")
    args = parser.parse_args(argv)
    try:
        specs = specs_of(args.specs, args.names)
        statistics = Statistics.read(args.settings)
        write(specs, frames.load(args.runs), Reference(args.paper), statistics, args.tables, show=bool(args.names))
    except (ConfigError, RunError, OSError) as fault:
        print(" ".join(str(fault).split("\n")), file=sys.stderr)
        return 2
    return 0


def specs_of(folder: Path, names: Sequence[str] = ()) -> list[Spec]:
    """The declared tables of these names, or all of a folder. Raises :class:`ConfigError`."""
    names = names or sorted(path.stem for path in folder.glob("*.yaml"))
    return [Spec.read(folder / f"{name}.yaml") for name in names]


def write(
    specs: Sequence[Spec], read: Frames, reference: Reference, statistics: Statistics, folder: Path, *, show: bool
) -> None:
    """Write the sheets of these tables, and the index of the folder; ``show`` prints them too."""
    for spec in specs:
        for sheet in sheets(spec, read, reference, statistics):
            if show:
                print(render.markdown(sheet))
            print(f"wrote {', '.join(map(str, render.write(sheet, folder)))}")
    (folder / INDEX).write_text(index(folder), "utf-8")
    print(f"wrote {folder / INDEX}")


def sheets(spec: Spec, read: Frames, reference: Reference, statistics: Statistics) -> Iterator[Sheet]:
    """The sheets of one table: of models, with whatever it lacks, and of the scripted engine where it was run. Raises
    :class:`ConfigError` as :func:`analysis.declared.cells` and :func:`analysis.declared.paper_of`."""
    published = declared.paper_of(spec, reference)
    for scripted in (False, True):
        rows = declared.cells(spec, read.runs, read.episodes, scripted=scripted)
        if not rows:
            continue
        if spec.kind == ACCURACY:
            made = [arc_accuracy.sheet(spec, rows, published, scripted=scripted)]
        elif spec.kind == MARGIN:
            made = [arc_accuracy.margin_sheet(spec, rows, published, scripted=scripted)]
        else:
            made = list(arc_mcnemar.sheets(spec, rows, read.episodes, published, statistics, scripted=scripted))
        strays = tuple(declared.strays(spec, read.runs, scripted=scripted))
        yield from (replace(sheet, notes=(*sheet.notes, *strays)) for sheet in made)


# ------------------------------------------------------------------------------------------ index


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


def _states(path: Path) -> dict[str, str]:
    """Rows by state; dashes where a table is no declared one."""
    try:
        found = pd.read_csv(path, usecols=["state"])["state"].value_counts()
    except (OSError, ValueError):
        return dict.fromkeys((COMPLETE, INCOMPLETE, MISSING), DASH)
    return {state: str(found.get(state, 0)) for state in (COMPLETE, INCOMPLETE, MISSING)}


if __name__ == "__main__":
    sys.exit(main())
