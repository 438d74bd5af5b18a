"""Counts by seed that a paper did not print, from what it did: pooled counts, mean and SD of per-seed odds ratios."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np


def seed_splits(
    *, n_a_only: int, n_b_only: int, mean: float, sd: float | None, n_used: int, n_seeds: int, ddof: int, decimals: int
) -> list[tuple[tuple[int, int], ...]]:
    """Every split of pooled discordant counts over seeds that gives a printed mean and SD of per-seed odds.

    A split lists (n_a_only, n_b_only) of the seeds in which the odds are defined, in ascending order of
    n_b_only; the order of seeds cannot be known. ``ddof`` is the SD's, ``decimals`` those printed; ``sd=None``
    leaves the SD open. ``n_used`` is at most 3.
    """
    close = 0.5 * 10**-decimals + 1e-9
    # where every seed is used, the last one has what is left of n_a_only
    free = n_used - 1 if n_used == n_seeds else n_used
    chosen = [grid.ravel() for grid in np.meshgrid(*[np.arange(n_a_only + 1.0)] * free, indexing="ij")]
    left = n_a_only - sum(chosen, np.zeros(len(chosen[0]) if chosen else 1))
    wins = np.stack([part[left >= 0] for part in ([*chosen, left] if n_used == n_seeds else chosen)])
    found: set[tuple[tuple[int, int], ...]] = set()
    for losses in _partitions(n_b_only, n_used):
        means = (1 / np.array(losses)) @ wins / n_used
        odds = wins[:, np.abs(means - mean) <= close] / np.array(losses)[:, None]
        if sd is not None:
            odds = odds[:, np.abs(odds.std(axis=0, ddof=ddof) - sd) <= close]
        for ratios in odds.T:
            split = [(round(ratio * lost), lost) for ratio, lost in zip(ratios, losses, strict=True)]
            found.add(tuple(sorted(split, key=lambda seed: (seed[1], seed[0]))))
    return sorted(found)


def _partitions(total: int, parts: int, least: int = 1) -> Iterator[tuple[int, ...]]:
    """Ways to write ``total`` as ``parts`` whole numbers in ascending order, none below ``least``."""
    if parts == 1:
        if total >= least:
            yield (total,)
        return
    for first in range(least, total // parts + 1):
        for rest in _partitions(total - first, parts - 1, first):
            yield (first, *rest)
