"""Our figures beside the paper's: each quantity as ours, the paper's as printed, and the difference."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, NamedTuple

import pandas as pd

from analysis.paired import P
from analysis.render import DASH, number

LABELS: Mapping[str, tuple[str, int]] = {
    "n_success": ("pass", 0),
    "n_fail": ("fail", 0),
    "mean_no_answer": ("mean no-answer", 2),
    "mean_n_success": ("mean pass", 2),
    "accuracy_pct": ("accuracy %", 2),
    "accuracy_sd_pct": ("SD", 2),
    "arc_accuracy_pct": ("arc %", 2),
    "runner_up_method": ("runner-up", 0),
    "runner_up_accuracy_pct": ("runner-up %", 2),
    "margin_pp": ("margin", 2),
    "n_episodes": ("episodes", 0),
    "t_total_s": ("total s", 3),
    "t_decode_s": ("decode s", 3),
    "t_prefill_s": ("prefill s", 3),
    "bandwidth_tb": ("traffic TB", 3),
    "savings_pct": ("saved % of time", 1),
    "savings_traffic_pct": ("saved % of traffic", 1),
    "speedup_x": ("speed-up", 2),
    "mean_calls": ("calls", 1),
    "mean_prompt_tokens": ("prompt tokens P", 0),
    "mean_decode_tokens": ("decoded tokens", 0),
    "mean_decode_context_mtokens2": ("decoded x context Q, M", 2),
    "mean_batch": ("batch", 1),
    "n_a_only": ("a only", 0),
    "n_b_only": ("b only", 0),
    "n_both": ("both", 0),
    "n_neither": ("neither", 0),
    "p_chi2": ("chi-square p", 0),
    "p_exact": ("exact p, one-sided", 0),
    "odds_ratio": ("odds ratio", 2),
    "per_seed_odds_mean": ("by seed, mean", 2),
    "per_seed_odds_sd": ("SD", 2),
    "n_discordant_seeds": ("seeds used", 0),
}
"""What a reader sees for a quantity, and its decimals."""
_COUNTED = ("n_", "mean_n")
_COUNTS_NO_TASKS = ("n_discordant_seeds",)


class Beside(NamedTuple):
    """One quantity of one row. The paper's is text, as printed; the difference, ours less theirs, is in the
    quantity's unit, for p-values in powers of ten, for words ``same`` or ``other``."""

    quantity: str
    ours: Any
    paper: str | None
    difference: float | str | None

    def written(self, published: bool) -> dict[str, Any]:
        """The columns of a CSV file; the paper's only where the table has them."""
        ours = self.ours.printed(6) if isinstance(self.ours, P) else self.ours
        theirs = {f"{self.quantity}_paper": self.paper, f"{self.quantity}_difference": self.difference}
        return {self.quantity: ours} | (theirs if published else {})

    def shown(self) -> tuple[str, str, str]:
        """As a reader sees it: ours, the paper's, the difference."""
        decimals = LABELS[self.quantity][1]
        difference = self.difference
        if isinstance(difference, float):
            difference = f"{difference:+.{decimals if not isinstance(self.ours, P) else 1}f}"
        return _text(self.ours, decimals), self.paper or DASH, difference or DASH


def beside(quantity: str, ours: Any, paper: Mapping[str, str], *, whole: bool, same_size: bool) -> Beside:
    """A quantity beside the paper's row (empty where it has none). There is a difference where our row is ``whole``,
    and of counts of tasks where it also is of the ``same_size``."""
    printed = paper.get(quantity) or None
    counted = quantity.startswith(_COUNTED) and quantity not in _COUNTS_NO_TASKS
    comparable = whole and (same_size or not counted) and printed is not None
    return Beside(quantity, ours, printed, _difference(ours, printed) if comparable and printed else None)


def _difference(ours: Any, printed: str) -> float | str | None:
    if isinstance(ours, str):
        return "same" if ours == printed else "other"
    if isinstance(ours, P):
        theirs = float(printed)
        return ours.log10_p - math.log10(theirs) if theirs else None
    if ours is None or pd.isna(ours):
        return None
    difference = float(ours) - float(printed)
    return difference if math.isfinite(difference) else None


def _text(value: Any, decimals: int) -> str:
    if isinstance(value, P):
        return value.printed()
    return value if isinstance(value, str) else number(value, decimals)
