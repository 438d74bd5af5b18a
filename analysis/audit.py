"""Audit of the papers' published figures: ``python -m analysis.audit [--paper DIR] [--tables DIR]``.

Every derived number of both papers' tables is computed again from the numbers it must follow from, as far as these are
printed, and every claim of ``claims.csv`` from its tables. A verdict says whether one value can stand behind both
(*consistent*), whether it can under a reading that the words or the rest of the table do not suggest, or the figures
cannot decide (*ambiguous*), or cannot (*inconsistent*). Numbers are intervals as wide as their rounding.

Writes ``paper_audit.csv``, ``.md`` and ``.tex``, what does not agree first. Exit status 2, with one line on standard
error, for tables that cannot be read.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import pandas as pd

from analysis import (
    audit_arc,
    audit_claims_arc,
    audit_claims_arc_appendix,
    audit_claims_vista,
    audit_roofline,
    audit_vista,
    render,
)
from analysis.audit_check import AMBIGUOUS, CONSISTENT, INCONSISTENT, Check, Facts, frame, printed_rows
from analysis.audit_claim import Claim
from analysis.reference import PAPER, Reference
from analysis.render import Sheet
from analysis.settings import CONF
from arcbench.types import ConfigError

FACTS = CONF / "audit/paper.yaml"


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command and return its exit status."""
    parser = argparse.ArgumentParser(prog="python -m analysis.audit", description="Audit of the published figures.")
    parser.add_argument("--paper", type=Path, default=PAPER, help="folder with the papers' figures, or corrected ones")
    parser.add_argument("--tables", type=Path, default=Path("results/tables"), help="folder that the audit goes to")
    parser.add_argument("--facts", type=Path, default=FACTS, help="what is taken from elsewhere")
    args = parser.parse_args(argv)
    try:
        made = sheet(audit(Reference(args.paper), Facts.read(args.facts)))
        print(render.markdown(made))
        for path in render.write(made, args.tables):
            print(f"wrote {path}")
    except (ConfigError, OSError) as fault:
        print(" ".join(str(fault).split("\n")), file=sys.stderr)
        return 2
    return 0


def audit(reference: Reference, facts: Facts) -> pd.DataFrame:
    """All checks, a row each, the gravest mismatches first. Raises :class:`ConfigError` for tables that lack a row or
    have one twice."""
    try:
        return frame(list(_checks(reference, facts)))
    except KeyError as fault:
        raise ConfigError(f"{reference.folder}: no row of {fault.args[0]}, which another table refers to") from None


def _checks(reference: Reference, facts: Facts) -> Iterator[Check]:
    yield from audit_arc.checks(reference, facts)
    yield from audit_roofline.checks(reference, facts)
    yield from audit_vista.checks(reference)
    rules = {**audit_claims_arc.RULES, **audit_claims_arc_appendix.RULES, **audit_claims_vista.rules(facts)}
    rows = printed_rows(reference, "claims", ("claim_id",))
    unknown = [row["claim_id"] for row in rows if row["claim_id"] not in rules]
    if unknown:
        raise ConfigError(
            f"{reference.folder / 'claims.csv'}: no rule for {', '.join(unknown)}; there are {len(rules)}"
        )
    for row in rows:
        yield from rules[row["claim_id"]](Claim.of(row), reference)


def sheet(checks: pd.DataFrame) -> Sheet:
    """The audit as a table: in full in ``data``, for readers what does not agree and, in the notes, how much does."""
    counts = checks["verdict"].value_counts()
    found = [f"{counts.get(verdict, 0)} {verdict}" for verdict in (INCONSISTENT, AMBIGUOUS, CONSISTENT)]
    apart = checks[checks["verdict"] != CONSISTENT]
    body = apart.rename(columns={"row": "where"}).drop(columns="kind")
    agree = checks[checks["verdict"] == CONSISTENT].assign(
        table=lambda f: f["table"].str.split(" ").str[:2].str.join(" ")
    )
    agreeing = agree.groupby("table", sort=False).size()
    return Sheet(
        name="paper_audit",
        title="Audit of the published figures",
        lead=(
            "Each figure against what its own primitives give, as printed; the gravest first. A difference says that "
            "two printed numbers cannot both be right, or how one was computed; it does not say which.",
            f"{len(checks)} checks: {', '.join(found)}. The consistent ones are in the CSV.",
        ),
        data=checks,
        body=body,
        text_columns=frozenset(body.columns),
        notes=(f"Consistent: {', '.join(f'{table} {n}' for table, n in agreeing.items())}.",),
    )


if __name__ == "__main__":
    sys.exit(main())
