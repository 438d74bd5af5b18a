"""How large a difference between paired 0/1 outcomes is: odds ratios, intervals, and what could have been shown.

Pure functions of the counts of ``analysis.paired``, with the same conventions: ``a`` better than ``b`` is positive,
fractions are not percent, and what does not exist is ``None`` (an odds ratio with ``n_b_only`` of 0, which papers
print as inf; an interval without pairs).
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from scipy import optimize, stats
from statsmodels.stats.proportion import proportion_confint

from analysis.paired import Clusters, Counts


class Interval(NamedTuple):
    """Limits at the level that was asked for."""

    low: float
    high: float


# ------------------------------------------------------------------------------------------- odds


def odds_ratio(counts: Counts) -> float | None:
    """Conditional odds ratio, n_a_only / n_b_only; ``None`` (undefined) when n_b_only is 0."""
    return counts.n_a_only / counts.n_b_only if counts.n_b_only else None


def odds_ratio_interval(counts: Counts, *, level: float) -> Interval | None:
    """Exact interval of the odds ratio, from Clopper-Pearson's on n_a_only out of the discordant pairs. The upper
    limit is infinite when n_b_only is 0; ``None`` without discordant pairs."""
    if not counts.n_discordant:
        return None
    low, high = proportion_confint(counts.n_a_only, counts.n_discordant, alpha=1 - level, method="beta")
    return Interval(low / (1 - low), math.inf if counts.n_b_only == 0 else high / (1 - high))


@dataclass(frozen=True, slots=True, kw_only=True)
class SeedOdds:
    """Odds ratios seed by seed: mean and sample SD over the ``n_used`` of ``n_seeds`` seeds in which it is
    defined; ``None`` where there are too few of them (one for a mean, two for an SD)."""

    mean: float | None
    sd: float | None
    n_used: int
    n_seeds: int


def seed_odds(seeds: Iterable[Counts]) -> SeedOdds:
    """Summary of the odds ratios of the seeds."""
    ratios = [odds_ratio(counts) for counts in seeds]
    used = [ratio for ratio in ratios if ratio is not None]
    return SeedOdds(
        mean=statistics.fmean(used) if used else None,
        sd=statistics.stdev(used) if len(used) > 1 else None,
        n_used=len(used),
        n_seeds=len(ratios),
    )


# ------------------------------------------------------------------------------------- difference


def newcombe(counts: Counts, *, level: float) -> Interval | None:
    """Interval of the difference by Newcombe's method 10 for paired data (1998); ``None`` without pairs."""
    n = counts.n
    if not n:
        return None
    first, second = counts.n_both + counts.n_a_only, counts.n_both + counts.n_b_only
    (low_a, high_a), (low_b, high_b) = (
        proportion_confint(successes, n, alpha=1 - level, method="wilson") for successes in (first, second)
    )
    p_a, p_b = first / n, second / n
    margins = first * (n - first) * second * (n - second)
    excess = float(counts.n_both * counts.n_neither - counts.n_a_only * counts.n_b_only)
    if excess > 0:
        excess = max(excess - n / 2, 0.0)  # his continuity correction of the correlation
    phi = excess / math.sqrt(margins) if margins else 0.0

    def reach(down: float, up: float) -> float:
        return math.sqrt(max(down**2 - 2 * phi * down * up + up**2, 0.0))

    difference = p_a - p_b
    return Interval(
        max(difference - reach(p_a - low_a, high_b - p_b), -1.0),
        min(difference + reach(high_a - p_a, p_b - low_b), 1.0),
    )


def tango(counts: Counts, *, level: float) -> Interval | None:
    """Score interval of the difference by Tango (1998); ``None`` without pairs."""
    return _tango(counts.n_a_only, counts.n_b_only, counts.n, level) if counts.n else None


def _tango(a_only: float, b_only: float, n: float, level: float) -> Interval:
    z = float(stats.norm.ppf(0.5 + level / 2))
    estimate = (a_only - b_only) / n
    edge = 1 - 1e-9

    def score(delta: float) -> float:
        # q: the proportion of pairs won by b, at its most likely if the difference were delta
        linear = (2 * n - a_only + b_only) * delta - a_only - b_only
        root = math.sqrt(max(linear**2 + 8 * n * b_only * delta * (1 - delta), 0.0))
        q = (root - linear) / (4 * n)
        variance = n * (2 * q + delta * (1 - delta))
        distance = a_only - b_only - n * delta
        return distance / math.sqrt(variance) if variance > 0 and distance else 0.0

    def limit(end: float, sign: int) -> float:
        if abs(estimate - end) < 1e-9 or sign * score(end * edge) < z:
            return end
        return float(optimize.brentq(lambda delta: score(delta) - sign * z, *sorted((end * edge, estimate))))

    return Interval(limit(-1.0, 1), limit(1.0, -1))


def cluster_bootstrap(clusters: Clusters, *, level: float, resamples: int, seed: int) -> Interval | None:
    """Percentile interval of the difference when whole clusters are drawn again; ``None`` without pairs.

    Where all clusters agree there is nothing to draw and the interval would shrink to a point; then it is
    Tango's with the clusters in the place of pairs.
    """
    k, n = len(clusters.d), int(clusters.n.sum())
    if not n:
        return None
    shares = clusters.d / clusters.n
    if (shares == shares[0]).all():
        return _tango(k * max(shares[0], 0.0), k * max(-shares[0], 0.0), k, level)
    rng = np.random.default_rng(seed)
    draws = np.empty(resamples)
    for i in range(resamples):
        drawn = rng.integers(0, k, k)
        draws[i] = clusters.d[drawn].sum() / clusters.n[drawn].sum()
    low, high = np.quantile(draws, [0.5 - level / 2, 0.5 + level / 2])
    return Interval(float(low), float(high))


def design_effect(clusters: Clusters) -> float:
    """How many times the variance of the difference exceeds that of as many independent pairs, under the null;
    1 where no pair is discordant. Pairs over design effect is the effective number of pairs.
    """
    discordant = int((clusters.n_a_only + clusters.n_b_only).sum())
    spread = int((clusters.d**2).sum())
    return spread / discordant if spread else 1.0


def smallest_difference(*, n: float, discordance: float, alpha: float, power: float) -> float | None:
    """The smallest difference of proportions that a two-sided McNemar test at ``alpha`` shows with the given
    power, with ``n`` pairs of which the fraction ``discordance`` differ (Connor, 1987). Where a difference is
    larger than that fraction, discordance is taken to be the difference. ``None`` when not even 1 would do.
    """
    z_alpha, z_power = (float(stats.norm.ppf(q)) for q in (1 - alpha / 2, power))

    def short_by(delta: float) -> float:
        psi = max(discordance, delta)
        return (z_alpha * math.sqrt(psi) + z_power * math.sqrt(psi - delta**2)) / math.sqrt(n) - delta

    if n <= 0 or short_by(1.0) > 0:
        return None
    return float(optimize.brentq(short_by, 1e-12, 1.0))
