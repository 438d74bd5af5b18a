"""One check of a published figure, and the vocabulary in which checks are written."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

import pandas as pd

from analysis import settings
from analysis.printed import Range, short
from analysis.reference import Reference
from analysis.rows import records_of
from arcbench.checks import whole
from arcbench.types import ConfigError

CONSISTENT, AMBIGUOUS, INCONSISTENT = VERDICTS = ("consistent", "ambiguous", "inconsistent")
CONCLUSION, CONTRADICTION, ARITHMETIC, CONVENTION = KINDS = (
    "a stated conclusion", "two places disagree", "arithmetic of a row", "convention",
)  # fmt: skip
"""Kinds of check, the gravest first: what a mismatch would mean."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """One row of the audit. ``table`` and ``row`` say where, ``printed`` what stands there, ``recomputed`` what its
    own primitives give, ``tolerance`` what the printed digits allow, ``why`` what hangs on it."""

    table: str
    row: str
    quantity: str
    printed: str
    recomputed: str
    tolerance: str
    verdict: str
    kind: str
    why: str


Words = dict[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """What the checks take from elsewhere than the papers' tables: ``conf/audit/paper.yaml`` says what each is."""

    always_c: int
    gaia_validation: int
    most_splits: int
    least_prompt_tokens: int

    @classmethod
    def read(cls, path: Path) -> Facts:
        """From the YAML file. Raises :class:`ConfigError`, ``OSError``."""
        names = [field.name for field in fields(cls)]
        given = settings.read(path, names)
        return cls(**{name: whole(f"{path}: {name}", given[name], 1) for name in names})


def printed_rows(reference: Reference, name: str, key: tuple[str, ...]) -> list[Words]:
    """The rows of a table as printed. Raises :class:`ConfigError` when two have the same key."""
    frame = reference.printed(name)
    twice = frame[frame.duplicated(list(key))]
    if len(twice):
        named = ", ".join(str(twice.iloc[0][column]) for column in key)
        raise ConfigError(f"{reference.folder / name}.csv: two rows of {named}; each may stand once")
    return [{str(k): str(v) for k, v in row.items()} for row in records_of(frame)]


def by(rows: list[Words], *columns: str) -> dict[tuple[str, ...], Words]:
    """Rows by the values of these columns."""
    return {tuple(row[column] for column in columns): row for row in rows}


def compared(
    table: str,
    row: str,
    quantity: str,
    printed: str,
    recomputed: Range,
    kind: str,
    why: str,
    *,
    stands_for: Range | None = None,
) -> Check:
    """A printed number against a recomputed one: consistent where one value may stand behind both. What is printed
    stands for its rounding, unless the table says otherwise."""
    stated = stands_for or Range.of(printed)
    return Check(
        table=table, row=row, quantity=quantity, printed=printed, recomputed=str(recomputed),
        tolerance=str(stands_for) if stands_for else f"±{short(stated.half)}", kind=kind, why=why,
        verdict=CONSISTENT if stated.meets(recomputed) else INCONSISTENT,
    )  # fmt: skip


def by_convention(
    table: str, row: str, quantity: str, printed: str, readings: Mapping[str, Range], usual: str, kind: str, why: str
) -> Check:
    """A printed number against several readings of how it was made: consistent under the ``usual`` one (that of the
    table as a whole), ambiguous under another alone, inconsistent under none."""
    stated = Range.of(printed)
    fitting = [name for name, value in readings.items() if stated.meets(value)]
    verdict = CONSISTENT if usual in fitting else AMBIGUOUS if fitting else INCONSISTENT
    told = "; ".join(f"{name} {value}" for name, value in readings.items())
    return Check(
        table=table, row=row, quantity=quantity, printed=printed, recomputed=told, tolerance=f"±{short(stated.half)}",
        verdict=verdict, kind=kind, why=why,
    )  # fmt: skip


def usual_of(cases: list[tuple[str, Mapping[str, Range]]]) -> str:
    """The reading that fits most of a table's printed numbers; the first of equals."""
    names = list(cases[0][1]) if cases else []
    return max(names, key=lambda name: sum(Range.of(p).meets(r[name]) for p, r in cases), default="")


def stated(table: str, quantity: str, claim: str, holds: bool | None, found: str, why: str) -> Check:
    """A statement against a computed criterion; ``None`` where the figures cannot decide it."""
    verdict = AMBIGUOUS if holds is None else CONSISTENT if holds else INCONSISTENT
    return Check(
        table=table, row="", quantity=quantity, printed=claim, recomputed=found, tolerance="", verdict=verdict,
        kind=CONCLUSION, why=why,
    )  # fmt: skip


def frame(checks: Iterator[Check] | list[Check]) -> pd.DataFrame:
    """The checks as a table, the gravest mismatches first."""
    rows: list[dict[str, Any]] = [{name: getattr(each, name) for name in Check.__dataclass_fields__} for each in checks]
    made = pd.DataFrame(rows, columns=list(Check.__dataclass_fields__))
    gravity = {"verdict": VERDICTS[::-1], "kind": KINDS}
    return made.sort_values(
        list(gravity), kind="stable", key=lambda column: column.map(gravity[str(column.name)].index), ignore_index=True
    )
