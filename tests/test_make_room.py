"""The make-room instance: its formulas by hand, and its simulation against the instance itself."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest

from analysis import make_room
from arcbench.types import ConfigError

# ----------------------------------------------------------------------------------------- bounds


def test_the_floor_falls_by_kappa_over_nu_a_bit_down_to_nothing() -> None:
    # nu = log2((72 - 8)/8) = 3
    assert make_room.lower_bound(0, 72, 8) == pytest.approx(8 * 2 / 3)
    assert make_room.lower_bound(1, 72, 8) == pytest.approx(8 / 3)
    assert make_room.lower_bound(2, 72, 8) == make_room.lower_bound(6, 72, 8) == 0


def test_the_other_bounds_by_hand() -> None:
    assert make_room.upper_bound(10, 4) == 1  # buckets of at most 3
    assert make_room.bits_needed(0.5, 72, 8) == 0.5
    assert make_room.bits_needed(0.9, 72, 8) == 0
    assert make_room.bits_enough(0.5, 72, 8) == math.log2(9)
    assert make_room.bits_enough(0.0, 72, 8) == make_room.bits_enough(0.001, 72, 8) == math.log2(72)
    assert make_room.signal_information_bound(1000, 4, 2) == pytest.approx(math.log(2))
    assert make_room.signal_information_bound(64, 4, 0.1) == 6
    assert make_room.list_bound(0.5, 4, 20) == 1 + 1 + 2
    assert make_room.unavailable_bound(3.5, 2) == 1.5
    assert make_room.unavailable_bound(1.5, 2) == 0


@pytest.mark.parametrize(("n", "kappa"), [(20, 1), (20, 10), (20, 15), (20, 2.5), (4, 2)])
def test_outside_its_conditions_the_theorem_says_nothing(n: int, kappa: int) -> None:
    with pytest.raises(ConfigError, match=rf"kappa={kappa}: must be a whole number from 2 to below n/2 = {n / 2:g} "):
        make_room.lower_bound(1, n, kappa)


@pytest.mark.parametrize("delta", [0.05, 0.1, 0.3, 0.5, 0.9])
@pytest.mark.parametrize(("n", "kappa"), [(40, 3), (250, 16), (1000, 4)])
def test_so_many_bits_are_enough_and_so_many_are_needed(n: int, kappa: int, delta: float) -> None:
    enough = make_room.bits_enough(delta, n, kappa)
    assert make_room.exact_ledger_mean(n, make_room.bucket_count(enough, n), kappa) <= delta * kappa
    reached = [m for m in range(1, n + 1) if make_room.exact_ledger_mean(n, m, kappa) <= delta * kappa]
    assert make_room.bits_needed(delta, n, kappa) <= make_room.ledger_bits(n, reached[0]) <= enough + 1e-9


# ------------------------------------------------------------------------------- the two interfaces


def test_a_rate_that_is_the_logarithm_of_a_number_gives_so_many_buckets() -> None:
    assert all(make_room.bucket_count(math.log2(m), 5000) == m for m in range(1, 5001))
    assert [make_room.bucket_count(bits, 10) for bits in (0, 0.9, 2.9, 3.32, 50)] == [1, 1, 7, 9, 10]


def test_buckets_are_balanced_and_say_at_most_the_logarithm_of_their_number() -> None:
    assert list(make_room.bucket_sizes(10, 4)) == [3, 3, 2, 2]
    # 2 x 0.3 log2(1/0.3) + 2 x 0.2 log2(1/0.2)
    assert make_room.ledger_bits(10, 4) == pytest.approx(1.970951)
    assert make_room.ledger_bits(12, 4) == 2
    assert make_room.ledger_bits(10, 10) == pytest.approx(math.log2(10))


@pytest.mark.parametrize(("n", "buckets", "kappa"), [(10, 4, 3), (40, 1, 3), (40, 7, 5), (40, 40, 2), (41, 2, 19)])
def test_the_exact_mean_of_a_ledger_is_that_of_counting_all_cases(n: int, buckets: int, kappa: int) -> None:
    total = Fraction(0)
    for block in range(n):
        size = len(range(block % buckets, n, buckets))
        total += Fraction(sum(min(place, kappa) for place in range(size)), size * n)
    assert make_room.exact_ledger_mean(n, buckets, kappa) == pytest.approx(float(total))


def test_the_exact_law_of_a_signal() -> None:
    # with no signal to speak of, tau is uniform
    assert make_room.signal_law(40, 3, 1e6) == pytest.approx([1 / 40, 1 / 40, 1 / 40, 37 / 40], abs=1e-6)
    assert make_room.signal_law(40, 3, 0.01) == pytest.approx([1, 0, 0, 0])
    # P(some other one of two blocks comes first) = P(N(0, 2 sigma^2) > ln kappa)
    assert make_room.signal_law(2, 2, 1.0)[0] == pytest.approx(1 - math.erfc(math.log(2) / 2) / 2)


def test_the_number_of_blocks_lost_is_that_of_archiving_until_there_is_room() -> None:
    kappa, n = 4, 12
    for place in range(1, n + 1):
        order = [1] * n  # the lengths of the blocks as they are archived
        order[place - 1] = kappa
        freed = needed = 0
        for length in order:
            if freed >= kappa:
                break
            freed += length
            needed += length == 1
        assert make_room.blocks_lost(np.array([place]), kappa)[0] == needed


def test_a_ledger_probes_its_bucket_in_uniform_order() -> None:
    places = make_room.simulate_ledger(10, 4, 60_000, np.random.default_rng(1))
    # 6 of 10 blocks are in a bucket of 3, 4 in one of 2
    expected = np.array([0.2 + 0.2, 0.2 + 0.2, 0.2])
    share = np.bincount(places, minlength=4)[1:] / len(places)
    assert share == pytest.approx(expected, abs=4 * 0.5 / math.sqrt(len(places)))
    assert set(make_room.simulate_ledger(10, 10, 100, np.random.default_rng(1))) == {1}


def test_the_information_of_a_signal_is_that_of_the_posterior() -> None:
    # two blocks: the posterior is a function of d = W_1 - W_2 alone; the information by integration over d
    d = np.linspace(-25, 25, 20_001)
    shift = math.log(2)
    either = [np.exp(-((d - sign * shift) ** 2) / 4) / math.sqrt(4 * math.pi) for sign in (1, -1)]
    both = (either[0] + either[1]) / 2
    exact = float((either[0] * np.log2(either[0] / both)).sum() * (d[1] - d[0]))
    _, entropies = make_room.simulate_signal(2, 2, 1.0, 20_000, np.random.default_rng(1))
    assert 1 - entropies.mean() == pytest.approx(exact, abs=4 * entropies.std() / math.sqrt(len(entropies)))
