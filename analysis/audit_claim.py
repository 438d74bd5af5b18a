"""One claim of a paper's prose, and the checks it can become."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from analysis.audit_check import AMBIGUOUS, CONCLUSION, CONSISTENT, INCONSISTENT, Check, Words
from analysis.printed import Range, short
from analysis.reference import Reference

_APART = re.compile(r";| to | and ")


@dataclass(frozen=True, slots=True, kw_only=True)
class Claim:
    """A row of ``claims.csv``. ``follows_from`` are the tables that it must follow from."""

    id: str
    place: str
    quantity: str
    stated: str
    follows_from: str

    @classmethod
    def of(cls, row: Words) -> Claim:
        """From its row."""
        return cls(
            id=row["claim_id"], place=f"{row['paper']}, {row['place']}", quantity=row["quantity"],
            stated=row["stated_value"], follows_from=row["computed_from"],
        )  # fmt: skip

    @property
    def parts(self) -> list[str]:
        """The numbers of the stated value."""
        return _APART.split(self.stated)

    def number(self, recomputed: Sequence[Range], why: str) -> Check:
        """Stated numbers against recomputed ones, one for each."""
        fits = len(self.parts) == len(recomputed) and all(
            Range.of(part).meets(value) for part, value in zip(self.parts, recomputed, strict=True)
        )
        return self._check("; ".join(map(str, recomputed)), CONSISTENT if fits else INCONSISTENT, why)

    def reading(self, readings: Mapping[str, Sequence[Range]], usual: str, why: str) -> Check:
        """Stated numbers under several readings: consistent under the ``usual`` one, which the words name; ambiguous
        under another alone."""
        fitting = [name for name, values in readings.items() if self.number(values, why).verdict == CONSISTENT]
        verdict = CONSISTENT if usual in fitting else AMBIGUOUS if fitting else INCONSISTENT
        told = "; ".join(f"{name}: {', '.join(map(str, values))}" for name, values in readings.items())
        return self._check(told, verdict, why)

    def statement(self, holds: bool | None, found: str, criterion: str) -> Check:
        """A statement against the criterion that stands for it; ``None`` where the figures cannot decide it."""
        verdict = AMBIGUOUS if holds is None else CONSISTENT if holds else INCONSISTENT
        return self._check(found, verdict, f"criterion: {criterion}")

    def _check(self, recomputed: str, verdict: str, why: str) -> Check:
        numbers = [part for part in self.parts if re.fullmatch(r"-?\d+(\.\d+)?", part)]
        widths = dict.fromkeys(f"±{short(Range.of(part).half)}" for part in numbers)
        return Check(
            table=f"claim {self.id} ({self.follows_from})", row=self.place, quantity=self.quantity,
            printed=self.stated, recomputed=recomputed, tolerance=", ".join(widths), verdict=verdict, kind=CONCLUSION,
            why=why,
        )  # fmt: skip


Rule = Callable[[Claim, Reference], Iterator[Check]]
"""What a claim is checked by."""
