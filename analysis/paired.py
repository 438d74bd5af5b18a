"""Statistics of paired 0/1 outcomes: two methods on the same tasks.

Everything here is a pure function. Outcomes are joined by id (:func:`pair`), counted (:class:`Counts`,
:class:`Clusters`) and tested. ``a`` better than ``b`` is the positive direction throughout. Proportions
and differences are fractions, not percent.

Degenerate input has an answer: without a discordant pair (or without any pair) every test gives p = 1
and the odds ratio is ``None``, undefined; it is undefined too when ``n_b_only`` is 0 (papers print inf).
P-values are kept as log10, since 2,000 pairs won by one side give 1e-602, which no float holds.
"""

from __future__ import annotations

import math
import statistics
from collections import Counter
from collections.abc import Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from scipy import optimize, special, stats
from statsmodels.stats.proportion import proportion_confint

from arcbench.types import ConfigError

Ints = npt.NDArray[np.int64]
LN10 = math.log(10)
_NAMED = 5  # ids named in an error

# ------------------------------------------------------------------------------------------ pairing


class Item(NamedTuple):
    """One outcome. ``seed`` tells apart outcomes of one id (a seed, an epoch); ``cluster`` is what several
    ids have in common (a document); without it every id is a cluster of its own."""

    id: str
    success: bool
    seed: Hashable = 0
    cluster: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Pairs:
    """Joined outcomes, one entry a pair, in order of the first side."""

    ids: tuple[str, ...]
    seeds: tuple[Hashable, ...]
    clusters: tuple[str, ...]
    a: Ints
    b: Ints

    def counts(self) -> Counts:
        """Over all pairs."""
        return _counts(self.a, self.b)

    def by_seed(self) -> dict[Hashable, Counts]:
        """One entry a seed, in order of their first pair."""
        index, places = _places(self.seeds)
        return {seed: _counts(self.a[index == i], self.b[index == i]) for seed, i in places.items()}

    def by_cluster(self) -> Clusters:
        """One entry a cluster."""
        index, places = _places(self.clusters)
        k = len(places)
        return Clusters(
            n=np.bincount(index, minlength=k),
            n_a_only=np.bincount(index[self.a > self.b], minlength=k),
            n_b_only=np.bincount(index[self.b > self.a], minlength=k),
        )


def pair(a: Iterable[Item], b: Iterable[Item], *, names: tuple[str, str]) -> Pairs:
    """Join two sides by id and seed. Where each side has but one seed (two sampling seeds of one method on the
    same tasks, say), the seed is no part of the key. Raises :class:`ConfigError` when an id is missing on one
    side or stands twice on one; it names the sides by ``names`` and the ids."""
    sides = [list(a), list(b)]
    seeded = any(len({item.seed for item in side}) > 1 for side in sides)

    def key(item: Item) -> tuple[str, Hashable]:
        return (item.id, item.seed if seeded else 0)

    def said(keys: Iterable[tuple[str, Hashable]]) -> str:
        found = [f"{id_} (seed {seed})" if seeded else id_ for id_, seed in keys]
        return ", ".join(found[:_NAMED]) + (f" and {len(found) - _NAMED} more" if len(found) > _NAMED else "")

    for side, name in zip(sides, names, strict=True):
        twice = [k for k, n in Counter(key(item) for item in side).items() if n > 1]
        if twice:
            raise ConfigError(f"{name}: {said(twice)} there more than once; each task counts once a seed")
    first, second = ({key(item): item for item in side} for side in sides)
    lacking = [
        f"{names[other]} lacks {said(k for k in here if k not in there)}"
        for here, there, other in ((first, second, 1), (second, first, 0))
        if here.keys() - there.keys()
    ]
    if lacking:
        raise ConfigError(f"{names[0]} and {names[1]} do not have the same tasks: {'; '.join(lacking)}")
    return Pairs(
        ids=tuple(item.id for item in first.values()),
        seeds=tuple(item.seed for item in first.values()),
        clusters=tuple(item.cluster if item.cluster is not None else item.id for item in first.values()),
        a=np.array([item.success for item in first.values()], dtype=np.int64),
        b=np.array([second[k].success for k in first], dtype=np.int64),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Counts:
    """The four cells: pairs in which only ``a``, only ``b``, both or neither succeeded."""

    n_a_only: int
    n_b_only: int
    n_both: int
    n_neither: int

    @property
    def n(self) -> int:
        """All pairs."""
        return self.n_a_only + self.n_b_only + self.n_both + self.n_neither

    @property
    def n_discordant(self) -> int:
        """Pairs in which the two differ."""
        return self.n_a_only + self.n_b_only

    @property
    def difference(self) -> float | None:
        """Proportion of ``a`` less that of ``b``; ``None`` without pairs."""
        return (self.n_a_only - self.n_b_only) / self.n if self.n else None


@dataclass(frozen=True, slots=True, kw_only=True)
class Clusters:
    """Counts by cluster, one entry each: its pairs, and those in which only ``a`` or only ``b`` succeeded."""

    n: Ints
    n_a_only: Ints
    n_b_only: Ints

    @property
    def d(self) -> Ints:
        """Pairs won by ``a`` less those won by ``b``."""
        return self.n_a_only - self.n_b_only

    def repeated(self) -> bool:
        """Whether any cluster has more than one pair; if not, clustered tests have nothing to add."""
        return bool((self.n > 1).any())


def _places(labels: Sequence[Hashable]) -> tuple[Ints, dict[Hashable, int]]:
    """The labels as indices, and the index of each."""
    places = {label: i for i, label in enumerate(dict.fromkeys(labels))}
    return np.array([places[label] for label in labels], dtype=np.int64), places


def _counts(a: Ints, b: Ints) -> Counts:
    both = int((a & b).sum())
    return Counts(
        n_a_only=int(a.sum()) - both,
        n_b_only=int(b.sum()) - both,
        n_both=both,
        n_neither=len(a) - int((a | b).sum()),
    )


# -------------------------------------------------------------------------------------------- tests


class P(NamedTuple):
    """A p-value, its log10 (which does not underflow) and the statistic it came from, where there is one."""

    p: float
    log10_p: float
    statistic: float | None = None

    def printed(self, digits: int = 3) -> str:
        """With so many significant digits, and never as 0."""
        return "<1e-300" if self.log10_p < -300 else f"{self.p:.{digits}g}"


def _p(log_p: float, statistic: float | None = None) -> P:
    """From the natural logarithm. Rounding may carry a sum of probabilities just above 1."""
    log_p = min(0.0, float(log_p))
    return P(math.exp(log_p), log_p / LN10, statistic)


def _chi_square_p(statistic: float) -> P:
    # as a normal tail: scipy's chi2.logsf is log(sf), which underflows
    return _p(math.log(2) + float(stats.norm.logsf(math.sqrt(statistic))), statistic)


def chi_square(counts: Counts) -> P:
    """McNemar's chi-square with continuity correction, one degree of freedom (ARC, Eq. 3).

    The correction never goes past zero: equal counts give 0 and p = 1, where statsmodels gives 1/n.
    """
    if not counts.n_discordant:
        return P(1.0, 0.0, 0.0)
    distance = max(abs(counts.n_a_only - counts.n_b_only) - 1, 0)
    return _chi_square_p(distance**2 / counts.n_discordant)


def _log_tail(n: int, at_least: int) -> float:
    """Log of the probability of ``at_least`` or more heads in ``n`` tosses; scipy's logsf would underflow."""
    return float(special.logsumexp(stats.binom.logpmf(np.arange(at_least, n + 1), n, 0.5)))


def exact_one_sided(counts: Counts) -> P:
    """Binomial over discordant pairs, against ``a`` being no better: P(X >= n_a_only). The ARC paper's."""
    return _p(_log_tail(counts.n_discordant, counts.n_a_only))


def exact_two_sided(counts: Counts) -> P:
    """Binomial over discordant pairs, twice the smaller tail and at most 1."""
    return _p(math.log(2) + _log_tail(counts.n_discordant, max(counts.n_a_only, counts.n_b_only)))


def mid_p(counts: Counts) -> P:
    """Two-sided binomial with half the weight on what was observed (Fagerland, Lydersen and Laake, 2013)."""
    n, most = counts.n_discordant, max(counts.n_a_only, counts.n_b_only)
    if not n:
        return P(1.0, 0.0)
    observed = float(stats.binom.logpmf(most, n, 0.5))
    if 2 * most == n:
        return _p(math.log1p(-math.exp(observed) / 2))
    beyond = _log_tail(n, most + 1) if most < n else -math.inf
    return _p(float(np.logaddexp(math.log(2) + beyond, observed)))


def durkalski(clusters: Clusters) -> P:
    """Clustered McNemar of Durkalski et al. (2003): chi-square (sum d/n)^2 / sum (d/n)^2, each cluster alike.

    With clusters of one pair it is McNemar's test without continuity correction.
    """
    share = clusters.d / clusters.n
    spread = float((share**2).sum())
    return _chi_square_p(float(share.sum()) ** 2 / spread) if spread else P(1.0, 0.0, 0.0)


def obuchowski(clusters: Clusters) -> P:
    """Clustered McNemar of Obuchowski (1998), each pair alike: chi-square ((K-1)/K) (sum d)^2 / sum d^2 over K
    clusters, which is what her variance under equal proportions comes to (Yang, Sun and Hardin, 2010)."""
    k, spread = len(clusters.d), int((clusters.d**2).sum())
    return _chi_square_p((k - 1) / k * int(clusters.d.sum()) ** 2 / spread) if spread else P(1.0, 0.0, 0.0)


def sign_flip(clusters: Clusters) -> P:
    """Permutation test that swaps the two sides in whole clusters: P(|sum of ±d| >= |sum of d|), two-sided.

    Exact over all 2^K swaps: the sum's distribution is put together from one binomial for each size of ``d``,
    in logarithms, so there is neither a random draw nor a floor under p.
    """
    sizes = Counter(int(size) for size in np.abs(clusters.d) if size)
    total = sum(size * times for size, times in sizes.items())
    log_p = np.zeros(1)  # by how much went to the one side, 0 to total
    for size, times in sorted(sizes.items(), key=lambda entry: entry[1]):
        step = stats.binom.logpmf(np.arange(times + 1), times, 0.5)
        wider = np.full(len(log_p) + size * times, -math.inf)
        if len(step) <= len(log_p):
            for i, each in enumerate(step):
                part = wider[i * size : i * size + len(log_p)]
                np.logaddexp(part, log_p + each, out=part)
        else:
            for i, each in enumerate(log_p):
                part = wider[i : i + size * times + 1 : size]
                np.logaddexp(part, step + each, out=part)
        log_p = wider
    sums = 2 * np.arange(total + 1) - total
    return _p(float(special.logsumexp(log_p[np.abs(sums) >= abs(int(clusters.d.sum()))])))


def holm(tests: Sequence[P | None]) -> list[P | None]:
    """Holm's adjustment over a declared family. An undefined test (``None``) stays so and counts for nothing."""
    order = sorted((test.log10_p, i) for i, test in enumerate(tests) if test is not None)
    adjusted: list[P | None] = [None] * len(tests)
    highest = -math.inf
    for rank, (log10_p, i) in enumerate(order):
        highest = max(highest, log10_p + math.log10(len(order) - rank))
        adjusted[i] = _p(highest * LN10)
    return adjusted


# ----------------------------------------------------------------------------------------- odds


class Interval(NamedTuple):
    """Limits at the level that was asked for."""

    low: float
    high: float


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


# -------------------------------------------------------------------------------------- simulation


def type_one_error(
    *,
    n_tasks: int,
    n_seeds: int,
    mean_logit: float,
    task_sd: float,
    interaction_sd: float,
    n_simulations: int,
    alpha: float,
    seed: int,
) -> dict[str, float]:
    """How often each test rejects at ``alpha`` although the two methods are equally good on the whole.

    Generator: method m succeeds on task t with logit ``mean_logit + u_t + v_tm``, u normal with ``task_sd``
    (some tasks are hard for everyone), v normal with ``interaction_sd`` (a task suits one method and not the
    other), the same under all ``n_seeds`` seeds. The seeds are independent given these; the methods' marginal
    probabilities are equal. ``interaction_sd = 0`` leaves seeds of one task independent as far as the
    difference goes.
    """
    rng = np.random.default_rng(seed)
    rejected: Counter[str] = Counter()
    for _ in range(n_simulations):
        ease = mean_logit + rng.normal(0, task_sd, n_tasks)
        a, b = (
            rng.binomial(1, special.expit(ease + rng.normal(0, interaction_sd, n_tasks))[:, None], (n_tasks, n_seeds))
            for _ in range(2)
        )
        counts = _counts(a.ravel(), b.ravel())
        clusters = Clusters(n=np.full(n_tasks, n_seeds), n_a_only=(a > b).sum(axis=1), n_b_only=(b > a).sum(axis=1))
        tests = {
            "pooled chi-square": chi_square(counts),
            "pooled exact two-sided": exact_two_sided(counts),
            "pooled mid-p": mid_p(counts),
            "Durkalski": durkalski(clusters),
            "Obuchowski": obuchowski(clusters),
            "cluster sign-flip": sign_flip(clusters),
        }
        rejected.update({name: int(test.p <= alpha) for name, test in tests.items()})
    return {name: count / n_simulations for name, count in rejected.items()}
