"""Tests of paired 0/1 outcomes: two methods on the same tasks.

Everything here is a pure function. Outcomes are joined by id (:func:`pair`), counted (:class:`Counts`,
:class:`Clusters`) and tested; how large a difference is, ``analysis.paired_effect`` says. ``a`` better than ``b`` is
the positive direction throughout.

Degenerate input has an answer: without a discordant pair, or without any pair, p is 1; so it is for the clustered
tests of a single cluster (but Durkalski's, whose formula gives 0.317 for any). P-values are kept as log10, since 2,000
pairs won by one side give 1e-602, which no float holds.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from scipy import special

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
        return counted(self.a, self.b)

    def by_seed(self) -> dict[Hashable, Counts]:
        """One entry a seed, in order of their first pair."""
        index, places = indexed(self.seeds)
        return {seed: counted(self.a[index == i], self.b[index == i]) for seed, i in places.items()}

    def by_cluster(self) -> Clusters:
        """One entry a cluster."""
        index, places = indexed(self.clusters)
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


def indexed(labels: Sequence[Hashable]) -> tuple[Ints, dict[Hashable, int]]:
    """Labels as indices, and the index of each, in order of their first appearance."""
    places = {label: i for i, label in enumerate(dict.fromkeys(labels))}
    return np.array([places[label] for label in labels], dtype=np.int64), places


def counted(a: Ints, b: Ints) -> Counts:
    """The cells of two sides' successes, pair by pair."""
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
    return _p(math.log(2) + float(special.log_ndtr(-math.sqrt(statistic))), statistic)


def chi_square(counts: Counts) -> P:
    """McNemar's chi-square with continuity correction, one degree of freedom (ARC, Eq. 3).

    The correction never goes past zero: equal counts give 0 and p = 1, where statsmodels gives 1/n.
    """
    if not counts.n_discordant:
        return P(1.0, 0.0, 0.0)
    distance = max(abs(counts.n_a_only - counts.n_b_only) - 1, 0)
    return _chi_square_p(distance**2 / counts.n_discordant)


def _log_heads(n: int) -> npt.NDArray[np.float64]:
    """Log of the probability of 0 to ``n`` heads in ``n`` tosses: as scipy's, in a tenth of the time."""
    log_factorial = special.gammaln(np.arange(1, n + 2))
    ways = log_factorial[-1] - log_factorial - log_factorial[::-1]
    return np.asarray(ways - n * math.log(2), dtype=np.float64)


def _log_sum(logs: npt.NDArray[np.float64]) -> float:
    return float(np.logaddexp.reduce(logs))


def _log_tail(n: int, at_least: int) -> float:
    """Log of the probability of ``at_least`` or more heads in ``n`` tosses; scipy's logsf would underflow."""
    return _log_sum(_log_heads(n)[at_least:])


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
    observed = float(_log_heads(n)[most])
    if 2 * most == n:
        return _p(math.log1p(-math.exp(observed) / 2))
    return _p(float(np.logaddexp(math.log(2) + _log_tail(n, most + 1), observed)))


def durkalski(clusters: Clusters) -> P:
    """Clustered McNemar of Durkalski et al. (2003): chi-square (sum d/n)^2 / sum (d/n)^2, each cluster alike.

    With clusters of one pair it is McNemar's test without continuity correction; of one cluster it always says 1.
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
        step = _log_heads(times)
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
    return _p(_log_sum(log_p[np.abs(sums) >= abs(int(clusters.d.sum()))]))


def holm(tests: Sequence[P | None]) -> list[P | None]:
    """Holm's adjustment over a declared family. An undefined test (``None``) stays so and counts for nothing."""
    order = sorted((test.log10_p, i) for i, test in enumerate(tests) if test is not None)
    adjusted: list[P | None] = [None] * len(tests)
    highest = -math.inf
    for rank, (log10_p, i) in enumerate(order):
        highest = max(highest, log10_p + math.log10(len(order) - rank))
        adjusted[i] = _p(highest * LN10)
    return adjusted
