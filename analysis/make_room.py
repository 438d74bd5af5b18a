"""The make-room instance of VISTA (Definition 1): its bounds, what is known beforehand, and its simulation.

n blocks, one of them, J*, kappa times as long as every other one and the only one that is not needed again. Blocks are
archived in some order until the length of J* is free; with tau the place of J* in that order, Z = min(tau - 1, kappa)
needed blocks have gone. All of this is plain functions of numbers, for use in a notebook: rates and information are in
bits, Z in blocks.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

from arcbench.types import ConfigError

Floats = npt.NDArray[np.float64]
Places = npt.NDArray[np.int64]

ROUNDING = 1e-9
"""What floating point may miss an exact inequality by."""
_VALUES_AT_ONCE = 2**20  # of a simulation, to keep it within the processor's cache

# ----------------------------------------------------------------------------------------- bounds


def lower_bound(bits: float, n: int, kappa: int) -> float:
    """Theorem 1: no policy whose knowledge of J* is ``bits`` has a smaller E[Z] (blocks).

    Raises :class:`ConfigError` outside 2 <= kappa < n/2, or for negative bits.
    """
    nu = bits_at_stake(n, kappa)
    if not bits >= 0:
        raise ConfigError(f"bits={bits}: must be a number of at least 0")
    return kappa * max(0.0, 1 - (bits + 1) / nu)


def bits_at_stake(n: int, kappa: int) -> float:
    """Theorem 1's nu = log2((n - kappa)/kappa), above 0; E[Z] falls by at most kappa/nu blocks a bit.

    Raises :class:`ConfigError` outside 2 <= kappa < n/2.
    """
    if isinstance(kappa, bool) or not isinstance(kappa, int) or not 2 <= kappa < n / 2:
        raise ConfigError(f"kappa={kappa}: must be a whole number from 2 to below n/2 = {n / 2:g} (n={n} blocks)")
    return math.log2((n - kappa) / kappa)


def upper_bound(n: int, buckets: int) -> float:
    """Appendix D: E[Z] of a ledger with balanced buckets is at most this (blocks), which is below n/(2 buckets)."""
    return (math.ceil(n / buckets) - 1) / 2


def bits_needed(delta: float, n: int, kappa: int) -> float:
    """Theorem 1 the other way round: E[Z] <= delta * kappa needs at least so many bits."""
    return max(0.0, (1 - delta) * bits_at_stake(n, kappa) - 1)


def bits_enough(delta: float, n: int, kappa: int) -> float:
    """Appendix D the other way round: a ledger of so many bits has E[Z] <= delta * kappa."""
    return math.log2(min(n, math.ceil(n / (2 * delta * kappa)))) if delta > 0 else math.log2(n)


def unavailable_bound(mean_lost: float, restorable: int) -> float:
    """Needed blocks that stay gone, at least, on the mean, when ``restorable`` of the archived can be brought back."""
    return max(0.0, mean_lost - restorable)


def signal_information_bound(n: int, kappa: int, sigma: float) -> float:
    """Proposition 2: bits that W_j = ln s_j + N(0, sigma^2) of all n blocks say about J*, at most."""
    return min(math.log2(n), math.log2(kappa) ** 2 * math.log(2) / sigma**2)


def list_bound(held: float, size: int, n: int) -> float:
    """Lemma 1: bits about J* that may be missing, at most, when a list of ``size`` blocks holds it with
    probability ``held``."""
    return 1 + held * math.log2(size) + (1 - held) * math.log2(n - size)


# ------------------------------------------------------------------------------- the two interfaces


def bucket_count(bits: float, n: int) -> int:
    """Buckets of a ledger of nominally so many bits: M = min(n, floor(2^bits))."""
    # log2 of a whole number, taken back, must give that number
    return n if bits >= math.log2(n) else min(n, math.floor(2**bits * (1 + ROUNDING)))


def bucket_sizes(n: int, buckets: int) -> Places:
    """Blocks in each of the balanced buckets: block j is in bucket j mod ``buckets``."""
    return n // buckets + (np.arange(buckets) < n % buckets).astype(np.int64)


def ledger_bits(n: int, buckets: int) -> float:
    """What the bucket says about J*, H(Y) in bits: log2 of their number, and less where n is no multiple of it."""
    share = bucket_sizes(n, buckets) / n
    return float(-(share * np.log2(share)).sum()) + 0.0  # one bucket says 0, not -0


def ledger_law(n: int, buckets: int, kappa: int) -> Floats:
    """P(Z = 0), ..., P(Z = kappa) when the bucket of J* is known and probed in uniformly random order."""
    sizes = bucket_sizes(n, buckets)
    # tau - 1 is z with probability 1/size in a bucket larger than z, and J* is there with probability size/n
    below = [(sizes > z).sum() / n for z in range(kappa)]
    return np.array([*below, np.maximum(sizes - kappa, 0).sum() / n])


def exact_ledger_mean(n: int, buckets: int, kappa: int) -> float:
    """E[Z] of that ledger, exactly (blocks)."""
    return moments(ledger_law(n, buckets, kappa))[0]


def simulate_ledger(n: int, buckets: int, trials: int, rng: np.random.Generator) -> Places:
    """The place tau of J* in each trial: its bucket is known, and the bucket's blocks are probed in random order."""
    bulky = rng.integers(n, size=trials)
    depth = math.ceil(n / buckets)
    places = []
    for part in _parts(bulky, depth):
        keys = rng.random((len(part), depth))  # the order of probing is that of the keys
        blocks = (part % buckets)[:, None] + buckets * np.arange(depth)
        keys[blocks >= n] = np.inf  # the smaller buckets have one block less
        own = np.take_along_axis(keys, (part // buckets)[:, None], axis=1)
        places.append((keys < own).sum(axis=1) + 1)
    return np.concatenate(places)


def signal_law(n: int, kappa: int, sigma: float) -> Floats:
    """P(Z = 0), ..., P(Z = kappa) when blocks are probed in decreasing W."""
    # given the noise x of J*, each other block comes before it with the same probability p, independently
    x = np.linspace(-10, 10, 4001)  # the normal density has ended; the trapezoid rule is exact for such integrands
    weight = np.exp(-(x**2) / 2) / math.sqrt(2 * math.pi) * (x[1] - x[0])
    p = np.array([math.erfc((value + math.log(kappa) / sigma) / math.sqrt(2)) / 2 for value in x])
    p = p.clip(np.finfo(float).tiny, 1 - np.finfo(float).eps)[:, None]
    z = np.arange(kappa)
    ways = np.concatenate([[0.0], np.cumsum(np.log((n - 1 - z[:-1]) / (z[:-1] + 1)))])  # ln of (n - 1 choose z)
    below = weight @ np.exp(ways + z * np.log(p) + (n - 1 - z) * np.log1p(-p))
    return np.append(below, max(0.0, 1 - below.sum()))


def exact_signal_mean(n: int, kappa: int, sigma: float) -> float:
    """E[Z] of probing in decreasing W, by numerical integration (blocks)."""
    return moments(signal_law(n, kappa, sigma))[0]


def simulate_signal(n: int, kappa: int, sigma: float, trials: int, rng: np.random.Generator) -> tuple[Places, Floats]:
    """The place tau of J* in decreasing W in each trial, and the bits about J* that W leaves open (posterior entropy).

    Probing in decreasing W is the best that can be done: the posterior of J* rises with W.
    """
    bulky = rng.integers(n, size=trials)
    places, entropies = [], []
    for part in _parts(bulky, n):
        w = rng.normal(scale=sigma, size=(len(part), n))  # ln of the common length is a constant: left out
        w[np.arange(len(part)), part] += math.log(kappa)
        own = np.take_along_axis(w, part[:, None], axis=1)
        places.append((w > own).sum(axis=1) + 1)
        # the posterior of J* = j is in proportion to exp(ln kappa * W_j / sigma^2)
        score = math.log(kappa) / sigma**2 * (w - w.max(axis=1, keepdims=True))
        odds = np.exp(score)
        total = odds.sum(axis=1)
        entropies.append((np.log(total) - (odds * score).sum(axis=1) / total) / math.log(2))
    return np.concatenate(places), np.concatenate(entropies)


def blocks_lost(places: Places, kappa: int) -> Places:
    """Z = min(tau - 1, kappa), the needed blocks archived (Eq. 9)."""
    return np.minimum(places - 1, kappa)


def _parts(values: Places, width: int) -> Iterator[Places]:
    step = max(1, _VALUES_AT_ONCE // width)
    for start in range(0, len(values), step):
        yield values[start : start + step]


def moments(law: Floats) -> tuple[float, float]:
    """Mean and standard deviation of a law on 0, 1, ..."""
    values = np.arange(len(law))
    mean = float(law @ values)
    return mean, math.sqrt(max(0.0, float(law @ (values - mean) ** 2)))
