"""Write the tables of all runs: ``python -m analysis.tables [--runs results/runs] [--tables results/tables]``.

Each table goes to ``<tables>/<name>.csv``, ``.md`` and ``.tex``; those of all runs are printed too, the declared tables
of the ARC paper (``analysis.arc_tables``) are not. Exit status 2, with one line on standard error, when there is
nothing to tabulate or the runs contradict each other.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from analysis import accuracy, arc_tables, declared, longbench_table, render
from arcbench import records
from arcbench.types import ConfigError


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command and return its exit status."""
    parser = argparse.ArgumentParser(prog="python -m analysis.tables", description="Tables of all runs.")
    parser.add_argument("--runs", type=Path, default=Path("results/runs"), help="folder below which all runs are read")
    parser.add_argument("--tables", type=Path, default=Path("results/tables"), help="folder that the tables go to")
    args = parser.parse_args(argv)
    try:
        return tabulate(args.runs, args.tables)
    except (ConfigError, records.RunError, OSError) as error:
        return _refuse(str(error))


def tabulate(runs: Path, tables: Path) -> int:
    """Read the runs, write and print their tables; returns the exit status."""
    given = arc_tables.Given.read()
    read = arc_tables.read(runs, given)
    left_out = accuracy.left_out(read.runs)
    # of a benchmark whose tasks share documents
    on_documents = read.runs["harness"].isin(read.episodes.loc[read.episodes["document"].notna(), "harness"])
    sheets = accuracy.sheets(read.runs[~on_documents], read.episodes)
    if on_documents.any():
        statistics = longbench_table.Statistics.read(longbench_table.STATISTICS)
        sheets += longbench_table.sheets(read.runs[on_documents], read.episodes, read.compactions, statistics)
    if not sheets:
        return _refuse(f"no run below {runs} belongs in a table ({'; '.join(left_out)}): run `make reproduce-tables`")
    for sheet in sheets:
        print(render.markdown(sheet))
        for path in render.write(sheet, tables):
            print(f"wrote {path}")
        print()
    for line in left_out:
        print(line)
    print()
    specs = arc_tables.specs_of(declared.FOLDER)
    arc_tables.write(specs, read, given, tables, show=False)
    return 0


def _refuse(line: str) -> int:
    print(" ".join(line.split("\n")), file=sys.stderr)
    return 2


if __name__ == "__main__":
    sys.exit(main())
