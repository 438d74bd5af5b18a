"""The A/A line: how often the same method on the same task turns out otherwise under another sampling seed.

The *flip rate* is the fraction of pairs of tries of one task, same method, in which one succeeded and the other did
not: twice the mean over tasks of p (1 - p). Given the tasks, it is also the variance of the difference of two tries.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Sequence
from dataclasses import dataclass

import numpy as np
from scipy import stats
from statsmodels.stats.proportion import proportion_confint

from analysis.paired import Clusters, Ints, indexed
from analysis.paired_effect import Interval, cluster_bootstrap


@dataclass(frozen=True, slots=True, kw_only=True)
class Flips:
    """Pairs of tries of one task, and those in which the two differ, one entry a cluster of tasks (a document, or the
    task itself)."""

    n_tasks: int
    n: Ints
    n_differ: Ints

    @property
    def n_pairs(self) -> int:
        """All pairs; three tries of one task are three pairs."""
        return int(self.n.sum())

    @property
    def n_discordant(self) -> int:
        """Pairs in which the two differ."""
        return int(self.n_differ.sum())

    @property
    def rate(self) -> float:
        """The flip rate."""
        return self.n_discordant / self.n_pairs

    def interval(self, *, level: float, resamples: int, seed: int) -> Interval:
        """Of the rate: Wilson's where each cluster is one pair, else by drawing whole clusters again. It is never a
        point: where no pair differs, the upper limit is Wilson's with the clusters in the place of pairs."""
        if (self.n == 1).all():
            return Interval(*proportion_confint(self.n_discordant, self.n_pairs, alpha=1 - level, method="wilson"))
        as_wins = Clusters(n=self.n, n_a_only=self.n_differ, n_b_only=np.zeros_like(self.n))
        drawn = cluster_bootstrap(as_wins, level=level, resamples=resamples, seed=seed)
        assert drawn is not None
        return Interval(max(drawn.low, 0.0), drawn.high)


def flips(tasks: Sequence[Hashable], clusters: Sequence[Hashable], successes: Ints) -> Flips | None:
    """From one entry a try: its task, what the task has in common with others, whether it succeeded. ``None`` when no
    task was tried twice."""
    index, place_of = indexed(tasks)
    k = len(place_of)
    tries, won = np.bincount(index, minlength=k), np.bincount(index[successes == 1], minlength=k)
    # a task's cluster is that of its first try
    cluster_of_task = dict(reversed(list(zip(tasks, clusters, strict=True))))
    of_task, place_of_cluster = indexed([cluster_of_task[task] for task in place_of])
    pairs, differ = tries * (tries - 1) // 2, won * (tries - won)
    n = np.zeros(len(place_of_cluster), dtype=np.int64)
    n_differ = np.zeros_like(n)
    np.add.at(n, of_task, pairs)
    np.add.at(n_differ, of_task, differ)
    if not n.any():
        return None
    return Flips(n_tasks=int((tries > 1).sum()), n=n[n > 0], n_differ=n_differ[n > 0])


def noise(rate_a: float, rate_b: float, *, n: int, level: float) -> float:
    """How far the difference of two accuracies over ``n`` pairs (each task once a seed) lies from what it is on the
    average of all sampling seeds, at most, with this probability: a fraction. For a method against itself give its
    flip rate twice. Sampling is independent from try to try, so clusters do not enter."""
    return float(stats.norm.ppf(0.5 + level / 2)) * math.sqrt((rate_a + rate_b) / 2 / n)
