"""Where the fact was: ``python -m analysis.ledger [--runs results/runs] [--tables results/tables]``.

From the records alone, for each call of the agent: did what the task asks for stand in the view (as observed, brought
back, in the agent's own words, in a summary), behind a handle that stood there, behind one that did not, or was it
lost; at which compaction it left; whether it was brought back; and why the episode failed. For a long document, where
no single fact is asked for, the same by page. What each word means: :data:`analysis.ledger_facts.State` and ``Cause``,
:data:`analysis.ledger_pages.State` and ``Cause``.

- ``ledger_<harness>``: by method, where the fact (or the pages) were, and what was brought back;
- ``ledger_<harness>_failures``: by method, why episodes failed.

Runs of the scripted engine, which are no model's, go to ``mechanism_ledger_*``. In a notebook::

    ledger = analysis.ledger.read("results/runs")
    ledger.fact_calls.merge(ledger.runs, on="run_dir").groupby(["method", "call"])["state"].value_counts()

Exit status 2, with one line on standard error, for bad input.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import pandas as pd

from analysis import frames, ledger_facts, ledger_pages, render
from analysis.accuracy import left_out
from analysis.ledger_sheets import sheets
from arcbench import records
from arcbench.records import Part
from arcbench.types import ConfigError

PARTS: Mapping[str, Part] = {
    "facts": ledger_facts.EPISODES,
    "fact_calls": ledger_facts.CALLS,
    "pages": ledger_pages.EPISODES,
    "page_calls": ledger_pages.CALLS,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Ledger:
    """Tidy frames, joined by ``run_dir`` and ``task``. ``runs``, ``episodes``, ``calls`` and ``compactions`` as
    ``arcbench.records.load`` reads them; ``facts`` and ``pages`` have a row an episode without error, ``fact_calls``
    and ``page_calls`` one for each of its agent calls: of tasks that ask for a fact, and of those about a document."""

    runs: pd.DataFrame
    episodes: pd.DataFrame
    calls: pd.DataFrame
    compactions: pd.DataFrame
    facts: pd.DataFrame
    fact_calls: pd.DataFrame
    pages: pd.DataFrame
    page_calls: pd.DataFrame


def read(root: Path | str) -> Ledger:
    """The ledger of all runs below ``root``. Raises :class:`RunError` and :class:`ConfigError` as
    ``analysis.frames.load``."""
    loaded, made = frames.load_with(root, PARTS)
    return Ledger(
        runs=loaded.runs, episodes=loaded.episodes, calls=loaded.calls, compactions=loaded.compactions, **made
    )


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command and return its exit status."""
    parser = argparse.ArgumentParser(prog="python -m analysis.ledger", description="Where the fact was, call by call.")
    parser.add_argument("--runs", type=Path, default=Path("results/runs"), help="folder below which all runs are read")
    parser.add_argument("--tables", type=Path, default=Path("results/tables"), help="folder that the sheets go to")
    args = parser.parse_args(argv)
    try:
        ledger = read(args.runs)
        made = sheets(ledger.runs, ledger.episodes, ledger.facts, ledger.pages)
        if not made:
            raise ConfigError(f"{args.runs}: no episode here, errors aside, that asks for a fact or about a document")
        for sheet in made:
            print(render.markdown(sheet))
            for path in render.write(sheet, args.tables):
                print(f"wrote {path}")
    except (ConfigError, records.RunError, OSError) as fault:
        print(" ".join(str(fault).split("\n")), file=sys.stderr)
        return 2
    for line in left_out(ledger.runs):
        print(line)
    return 0


if __name__ == "__main__":
    sys.exit(main())
