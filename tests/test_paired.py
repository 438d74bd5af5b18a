"""Paired statistics: by hand, against statsmodels and scipy, against the papers' tables, and by simulation."""

from __future__ import annotations

import functools
import itertools
import math
from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy import stats
from statsmodels.stats.contingency_tables import mcnemar
from statsmodels.stats.multitest import multipletests

from analysis import paired, paired_effect
from analysis.paired import Clusters, Counts, Item, P, pair
from analysis.paired_effect import Interval, SeedOdds
from analysis.reference import Reference
from analysis.seed_splits import seed_splits
from arcbench.types import ConfigError

TESTS = (paired.chi_square, paired.exact_one_sided, paired.exact_two_sided, paired.mid_p)
CLUSTERED = (paired.durkalski, paired.obuchowski, paired.sign_flip)


def counts(a_only: int, b_only: int, both: int = 0, neither: int = 0) -> Counts:
    return Counts(n_a_only=a_only, n_b_only=b_only, n_both=both, n_neither=neither)


def clusters(*cells: tuple[int, int, int]) -> Clusters:
    """From (pairs, a only, b only) of each cluster."""
    n, a_only, b_only = np.array(cells, dtype=np.int64).reshape(-1, 3).T
    return Clusters(n=n, n_a_only=a_only, n_b_only=b_only)


def items(ids: str, successes: str, **fields: Any) -> list[Item]:
    return [Item(id_, success == "1", **fields) for id_, success in zip(ids, successes, strict=True)]


# ------------------------------------------------------------------------------------------ pairing


def test_pairs_are_joined_by_id_not_by_place() -> None:
    pairs = pair(items("123", "100"), items("321", "001"), names=("A", "B"))
    assert pairs.counts() == counts(0, 0, both=1, neither=2)
    assert pairs.ids == ("1", "2", "3")


def test_a_missing_and_a_doubled_id_are_named() -> None:
    with pytest.raises(ConfigError, match="^arc and slim do not have the same tasks: slim lacks 3; arc lacks 4$"):
        pair(items("123", "100"), items("124", "100"), names=("arc", "slim"))
    with pytest.raises(ConfigError, match="^slim: 2 there more than once"):
        pair(items("12", "10"), items("122", "100"), names=("arc", "slim"))
    with pytest.raises(ConfigError, match="B lacks a, b, c, d, e and 2 more$"):
        pair(items("abcdefg", "1111111"), [], names=("A", "B"))


def test_one_id_under_several_seeds_is_several_pairs_of_one_cluster() -> None:
    a = items("12", "10", seed=42) + items("12", "11", seed=82)
    b = items("12", "00", seed=42) + items("12", "00", seed=82)
    pairs = pair(a, b, names=("A", "B"))
    assert pairs.by_seed() == {42: counts(1, 0, neither=1), 82: counts(2, 0)}
    assert pairs.by_cluster().d.tolist() == [2, 1]
    assert pairs.by_cluster().n.tolist() == [2, 2]
    with pytest.raises(ConfigError, match=r"B lacks 1 \(seed 82\), 2 \(seed 82\)"):
        pair(a, b[:2], names=("A", "B"))


def test_one_seed_against_another_pairs_the_same_tasks() -> None:
    pairs = pair(items("12", "10", seed=42), items("12", "00", seed=82), names=("A", "A again"))
    assert pairs.counts() == counts(1, 0, neither=1)


def test_several_ids_may_share_a_cluster() -> None:
    a = [Item("1", True, 0, "doc"), Item("2", True, 0, "doc"), Item("3", True)]
    by_cluster = pair(a, items("123", "010"), names=("A", "B")).by_cluster()
    assert by_cluster.n.tolist() == [2, 1]
    assert by_cluster.n_a_only.tolist() == [1, 1]


# ---------------------------------------------------------------------------------------- degenerate


@pytest.mark.parametrize("cells", [counts(0, 0, both=5), counts(0, 0, neither=5), counts(0, 0)])
def test_without_a_discordant_pair_p_is_one_and_the_odds_are_undefined(cells: Counts) -> None:
    assert [(test(cells).p, test(cells).log10_p, test(cells).printed()) for test in TESTS] == [(1.0, 0.0, "1")] * 4
    assert paired_effect.odds_ratio(cells) is None
    assert paired_effect.odds_ratio_interval(cells, level=0.95) is None
    assert paired_effect.seed_odds([cells, cells]) == SeedOdds(mean=None, sd=None, n_used=0, n_seeds=2)
    by_cluster = clusters(*[(1, 0, 0)] * cells.n)
    assert [test(by_cluster).p for test in CLUSTERED] == [1.0] * 3
    assert paired_effect.design_effect(by_cluster) == 1.0


def test_without_pairs_there_is_no_difference_and_no_interval() -> None:
    assert counts(0, 0).difference is None
    assert paired_effect.newcombe(counts(0, 0), level=0.95) is None
    assert paired_effect.tango(counts(0, 0), level=0.95) is None
    assert paired_effect.cluster_bootstrap(clusters(), level=0.95, resamples=10, seed=1) is None
    assert paired_effect.smallest_difference(n=0, discordance=0.0, alpha=0.05, power=0.8) is None


def test_a_side_without_any_outcome_is_named() -> None:
    with pytest.raises(ConfigError, match="^A and B do not have the same tasks: B lacks 1, 2$"):
        pair(items("12", "10"), [], names=("A", "B"))
    nothing = pair([], [], names=("A", "B"))
    assert nothing.counts() == counts(0, 0)
    assert nothing.by_seed() == {}
    assert [test(nothing.by_cluster()).p for test in CLUSTERED] == [1.0] * 3


@pytest.mark.parametrize("one", [(1, 1, 0), (5, 4, 0), (5, 1, 3)])
def test_a_single_cluster_shows_nothing(one: tuple[int, int, int]) -> None:
    """Whatever is in it, there are only two ways to swap; Durkalski's statistic is x^2 / x^2."""
    single = clusters(one)
    assert paired.sign_flip(single).p == 1.0
    assert paired.obuchowski(single).p == 1.0
    assert paired.durkalski(single).statistic == pytest.approx(1.0)
    assert paired.durkalski(single).p == pytest.approx(0.3173, abs=5e-5)
    low, high = paired_effect.cluster_bootstrap(single, level=0.95, resamples=10, seed=1) or (0.0, 0.0)
    assert low < 0 < high


def test_two_thousand_to_none_keeps_its_logarithm() -> None:
    one = paired.exact_one_sided(counts(2000, 0))
    assert one.log10_p == pytest.approx(-2000 * math.log10(2))
    assert one.printed() == "<1e-300"
    assert paired.exact_two_sided(counts(2000, 0)).log10_p == pytest.approx(-1999 * math.log10(2))
    assert paired.mid_p(counts(2000, 0)).log10_p == pytest.approx(-2000 * math.log10(2))
    # 1999^2 / 2000 as chi-square: the normal tail at 44.7, whose leading term is known
    z = 1999 / math.sqrt(2000)
    leading = math.log10(2 / (z * math.sqrt(2 * math.pi))) - z**2 / 2 / math.log(10)
    assert paired.chi_square(counts(2000, 0)).log10_p == pytest.approx(leading, abs=1e-3)
    flipped = paired.sign_flip(clusters(*[(1, 1, 0)] * 2000))
    assert flipped.log10_p == pytest.approx(-1999 * math.log10(2))


def test_all_to_one_side_has_an_interval_and_no_odds_ratio() -> None:
    cells = counts(3, 0)
    assert paired_effect.odds_ratio(cells) is None
    low, high = paired_effect.odds_ratio_interval(cells, level=0.95) or (0, 0)
    share = 0.025 ** (1 / 3)  # Clopper-Pearson when all succeed
    assert (low, high) == (pytest.approx(share / (1 - share)), math.inf)
    assert paired_effect.odds_ratio(counts(0, 3)) == 0.0


# ---------------------------------------------------------------------------------- pooled tests


@pytest.mark.parametrize(("a_only", "b_only"), [(1, 0), (3, 1), (2, 9), (25, 14), (40, 41), (0, 12)])
def test_pooled_tests_agree_with_statsmodels_and_scipy(a_only: int, b_only: int) -> None:
    cells = counts(a_only, b_only, both=7, neither=3)
    table = [[7, a_only], [b_only, 3]]
    chi = mcnemar(table, exact=False, correction=True)
    assert paired.chi_square(cells).statistic == pytest.approx(chi.statistic)
    assert paired.chi_square(cells).p == pytest.approx(chi.pvalue)
    assert paired.exact_two_sided(cells).p == pytest.approx(mcnemar(table, exact=True).pvalue)
    one = stats.binomtest(a_only, a_only + b_only, 0.5, alternative="greater").pvalue
    assert paired.exact_one_sided(cells).p == pytest.approx(one)
    assert paired.exact_one_sided(cells).log10_p == pytest.approx(math.log10(one))


def test_the_continuity_correction_stops_at_zero() -> None:
    assert paired.chi_square(counts(5, 5)) == P(1.0, 0.0, 0.0)  # statsmodels: statistic 0.1, p 0.75
    assert paired.chi_square(counts(5, 4)).p == 1.0


def test_against_a_published_example() -> None:
    """Complete response before and after consolidation therapy (Cavo et al., 2012), worked in Fagerland, Lydersen
    and Laake, Statistical Analysis of Contingency Tables (2017), chapter 8: 59, 6, 16 and 80 patients."""
    cells = counts(6, 16, both=59, neither=80)
    assert cells.difference == pytest.approx(-0.0621, abs=5e-5)
    assert paired.chi_square(cells).p == pytest.approx(0.055009, abs=5e-7)
    assert paired.exact_two_sided(cells).p == pytest.approx(0.052479, abs=5e-7)
    assert paired.mid_p(cells).p == pytest.approx(0.034690, abs=5e-7)
    assert paired_effect.newcombe(cells, level=0.95) == pytest.approx((-0.1186, -0.0046), abs=5e-5)
    assert paired_effect.tango(cells, level=0.95) == pytest.approx((-0.1240, -0.0054), abs=5e-5)
    # 25 and 2 discordant pairs (Ezra et al., 2010), the same chapter
    assert paired_effect.odds_ratio(counts(25, 2)) == 12.5
    assert paired_effect.odds_ratio_interval(counts(25, 2), level=0.95) == pytest.approx((3.1169, 108.8892), abs=5e-5)


@pytest.mark.parametrize("cells", [(1, 0, 2), (3, 3, 0), (0, 4, 1)])
def test_mid_p_by_summing_over_all_outcomes(cells: tuple[int, int, int]) -> None:
    a_only, b_only, both = cells
    n = a_only + b_only
    probability = [math.comb(n, k) / 2**n for k in range(n + 1)]
    own = probability[a_only]
    more = sum(p for k, p in enumerate(probability) if p < own * (1 - 1e-9))
    equal = sum(p for k, p in enumerate(probability) if abs(p - own) <= own * 1e-9)
    assert paired.mid_p(counts(a_only, b_only, both)).p == pytest.approx(more + equal / 2)


# ------------------------------------------------------------------------------- clustered tests


def test_clustered_tests_worked_by_hand() -> None:
    # d = 2, 0, -1; d/n = 2/3, 0, -1/2
    three = clusters((3, 2, 0), (3, 1, 1), (2, 0, 1))
    # (1/6)^2 / (4/9 + 1/4) = 1/25
    assert paired.durkalski(three).statistic == pytest.approx(1 / 25)
    # 2/3 * 1^2 / (4 + 1)
    assert paired.obuchowski(three).statistic == pytest.approx(2 / 15)
    assert paired.durkalski(three).p == pytest.approx(stats.chi2.sf(1 / 25, 1))
    # ±2 ±1 gives 3, 1, -1, -3: all at least as far out as 1
    assert paired.sign_flip(three).p == pytest.approx(1.0)
    # ±2 ±2 ±1 reaches 5 in 2 of 8 ways
    assert paired.sign_flip(clusters((3, 2, 0), (3, 2, 0), (3, 1, 0))).p == pytest.approx(2 / 8)
    # sum d^2 = 5 against 5 discordant pairs
    assert paired_effect.design_effect(three) == pytest.approx(5 / 5)
    assert paired_effect.design_effect(clusters((3, 3, 0), (3, 0, 3))) == pytest.approx(18 / 6)


def test_obuchowski_is_her_variance_under_equal_proportions() -> None:
    """Her equations, written out: pooled proportion, variance and covariance over clusters."""
    cells = [(4, 2, 1, 1), (3, 0, 1, 2), (5, 2, 0, 1), (2, 1, 0, 0)]  # pairs, a only, b only, both
    n, a_only, b_only, both = np.array(cells).T
    k, total = len(n), n.sum()
    a, b = a_only + both, b_only + both
    pooled = (a.sum() + b.sum()) / (2 * total)
    scale = k / (k - 1) / total**2
    var_a, var_b = (scale * ((x - n * pooled) ** 2).sum() for x in (a, b))
    covariance = scale * ((a - n * pooled) * (b - n * pooled)).sum()
    expected = ((a.sum() - b.sum()) / total) ** 2 / (var_a + var_b - 2 * covariance)
    got = paired.obuchowski(Clusters(n=n, n_a_only=a_only, n_b_only=b_only))
    assert got.statistic == pytest.approx(expected)


@pytest.mark.parametrize(("a_only", "b_only"), [(3, 1), (12, 20)])
def test_clusters_of_one_pair_give_the_pooled_tests(a_only: int, b_only: int) -> None:
    single = clusters(*[(1, 1, 0)] * a_only, *[(1, 0, 1)] * b_only, *[(1, 0, 0)] * 5)
    pooled = mcnemar([[5, a_only], [b_only, 0]], exact=False, correction=False)
    assert not single.repeated()
    assert paired.durkalski(single).statistic == pytest.approx(pooled.statistic)
    k = a_only + b_only + 5
    assert paired.obuchowski(single).statistic == pytest.approx((k - 1) / k * pooled.statistic)
    assert paired.sign_flip(single).p == pytest.approx(paired.exact_two_sided(counts(a_only, b_only)).p)
    assert paired_effect.design_effect(single) == 1.0


def test_sign_flip_against_every_swap() -> None:
    rng = np.random.default_rng(5)
    for _ in range(10):
        d = rng.integers(-4, 5, 9)
        cells = clusters(*[(4, max(x, 0), max(-x, 0)) for x in d])
        sums = [
            abs(sum(s * x for s, x in zip(signs, d, strict=True))) for signs in itertools.product((1, -1), repeat=9)
        ]
        assert paired.sign_flip(cells).p == pytest.approx(np.mean([s >= abs(d.sum()) for s in sums]))


# --------------------------------------------------------------------------------- family of tests


def test_holm_leaves_an_undefined_p_aside() -> None:
    with_hole = paired.holm([P(0.01, -2.0), None, P(0.03, math.log10(0.03))])
    without = paired.holm([P(0.01, -2.0), P(0.03, math.log10(0.03))])
    assert with_hole[1] is None
    assert [with_hole[0], with_hole[2]] == without
    assert [p and p.p for p in with_hole] == [pytest.approx(0.02), None, pytest.approx(0.03)]
    assert paired.holm([]) == []
    assert paired.holm([None, None]) == [None, None]
    assert paired.holm([None, P(0.04, math.log10(0.04))])[1] == pytest.approx((0.04, math.log10(0.04), None))


def test_holm_agrees_with_statsmodels_and_does_not_underflow() -> None:
    ps = np.random.default_rng(3).uniform(0.0001, 0.4, 12)
    ours = paired.holm([P(p, math.log10(p)) for p in ps])
    assert [p.p for p in ours if p] == pytest.approx(list(multipletests(ps, method="holm")[1]))
    tiny = paired.holm([P(0.0, -600.0), P(0.5, math.log10(0.5))])[0]
    assert tiny
    assert tiny.log10_p == pytest.approx(-600 + math.log10(2))


# ------------------------------------------------------------------------------------ difference


def test_intervals_where_nothing_differs_do_not_shrink_to_a_point() -> None:
    z2 = stats.norm.ppf(0.975) ** 2
    assert paired_effect.tango(counts(0, 0, both=20), level=0.95) == pytest.approx((-z2 / (20 + z2), z2 / (20 + z2)))
    low, high = paired_effect.newcombe(counts(0, 0, both=20), level=0.95) or (0.0, 0.0)
    assert low < -0.1
    assert high > 0.1
    same = clusters(*[(3, 0, 0)] * 20)
    assert paired_effect.cluster_bootstrap(same, level=0.95, resamples=50, seed=1) == pytest.approx(
        (-z2 / (20 + z2), z2 / (20 + z2))
    )
    won = clusters(*[(3, 3, 0)] * 20)
    assert paired_effect.cluster_bootstrap(won, level=0.95, resamples=50, seed=1) == pytest.approx(
        ((20 - z2) / (20 + z2), 1)
    )


@pytest.mark.parametrize("cells", [counts(8, 0), counts(0, 8), counts(3, 1, 4, 2), counts(1, 0, 0, 0)])
def test_intervals_hold_the_estimate_and_turn_over_with_the_sides(cells: Counts) -> None:
    turned = counts(cells.n_b_only, cells.n_a_only, cells.n_both, cells.n_neither)
    for interval in (paired_effect.newcombe, paired_effect.tango):
        low, high = interval(cells, level=0.95) or (0.0, 0.0)
        assert -1 <= low <= (cells.difference or 0) <= high <= 1
        assert interval(turned, level=0.95) == pytest.approx((-high, -low))


def test_tango_limits_are_where_its_score_is_z() -> None:
    # b = 0: q = (1 - delta) / 2, and score^2 = n (1 - delta) / (1 + delta)
    low, high = paired_effect.tango(counts(8, 0), level=0.95) or (0.0, 0.0)
    z2 = stats.norm.ppf(0.975) ** 2
    assert low == pytest.approx((8 - z2) / (8 + z2))
    assert high == 1.0


def test_cluster_bootstrap_is_as_wide_as_the_clusters_vary() -> None:
    rng = np.random.default_rng(9)
    wins = rng.binomial(3, rng.choice([0.1, 0.9], 400))
    cells = clusters(*[(3, w, 0) for w in wins])
    low, high = paired_effect.cluster_bootstrap(cells, level=0.95, resamples=2000, seed=4) or (0.0, 0.0)
    half = 1.96 * (wins / 3).std() / math.sqrt(400)
    assert (low + high) / 2 == pytest.approx(wins.mean() / 3, abs=half / 5)
    assert (high - low) / 2 == pytest.approx(half, rel=0.1)
    assert paired_effect.cluster_bootstrap(cells, level=0.95, resamples=2000, seed=4) == Interval(low, high)


def test_the_smallest_difference_has_the_power_it_says() -> None:
    n, discordance = 400, 0.2
    delta = paired_effect.smallest_difference(n=n, discordance=discordance, alpha=0.05, power=0.8)
    assert delta
    rng = np.random.default_rng(2)
    cells = rng.multinomial(n, [(discordance + delta) / 2, (discordance - delta) / 2, 1 - discordance], 4000)
    z = (cells[:, 0] - cells[:, 1]) / np.sqrt(cells[:, 0] + cells[:, 1])
    assert (np.abs(z) > 1.96).mean() == pytest.approx(0.8, abs=0.03)


def test_the_smallest_difference_at_the_ends() -> None:
    few = paired_effect.smallest_difference(n=3, discordance=0.1, alpha=0.05, power=0.8)
    assert few is None
    # nothing discordant seen: all pairs that differ would go one way
    delta = paired_effect.smallest_difference(n=1000, discordance=0.0, alpha=0.05, power=0.8) or 0
    z = math.sqrt(delta) * 1.959964 + math.sqrt(delta - delta**2) * 0.841621
    assert delta == pytest.approx(z / math.sqrt(1000), rel=1e-5)


# --------------------------------------------------------------------------------- the papers' tables

TABLES = pd.concat([Reference().printed(name) for name in ("arc_table05", "arc_table06")], ignore_index=True)
ROWS = [pytest.param(row, id=f"{row.benchmark}-{row.model}-{row.method_b}") for row in TABLES.itertuples()]


def printed_counts(row: Any) -> Counts:
    return counts(int(row.n_a_only), int(row.n_b_only), int(row.n_both), int(row.n_neither))


def significant(text: str) -> int:
    """How many significant digits a number was printed with."""
    return len(text.partition("e")[0].replace(".", "").lstrip("0"))


@pytest.mark.parametrize("row", ROWS)
def test_the_printed_exact_p_is_one_sided(row: Any) -> None:
    """Found by trying both: one-sided, P(X >= n_a_only), gives every printed digit, two-sided is twice that
    everywhere. The three that are printed as 0 are below what a double holds: 1e-358 and less."""
    cells = printed_counts(row)
    one = paired.exact_one_sided(cells)
    if float(row.p_exact) == 0:
        assert one.log10_p < math.log10(5e-324)
        return
    digits = significant(row.p_exact)
    assert f"{one.p:.{digits - 1}e}" == f"{float(row.p_exact):.{digits - 1}e}"
    assert paired.exact_two_sided(cells).log10_p == pytest.approx(one.log10_p + math.log10(2))


@pytest.mark.parametrize("row", ROWS)
def test_the_printed_chi_square_p_is_continuity_corrected_to_six_decimals(row: Any) -> None:
    """One row is not printed as 0: 91 against 41 pairs, 2.0e-5. With the correction it is 0.000020, without 0.000014;
    the others, 2.7e-7 and less, are 0 at six decimals (at seven, one of them would not be)."""
    cells = printed_counts(row)
    assert float(f"{paired.chi_square(cells).p:.6f}") == float(row.p_chi2)
    if float(row.p_chi2):
        distance = cells.n_a_only - cells.n_b_only
        without = float(stats.chi2.sf(distance**2 / cells.n_discordant, 1))
        assert float(f"{without:.6f}") != float(row.p_chi2)


def test_six_decimals_is_the_only_place_where_the_chi_square_ps_fit() -> None:
    def fits(decimals: int) -> bool:
        return all(
            float(f"{paired.chi_square(printed_counts(row)).p:.{decimals}f}") == float(row.p_chi2)
            for row in TABLES.itertuples()
        )

    assert [decimals for decimals in range(3, 9) if fits(decimals)] == [5, 6]


@pytest.mark.parametrize("row", ROWS)
def test_the_printed_odds_ratio_is_n_a_only_over_n_b_only(row: Any) -> None:
    """Conditional, and inf where n_b_only is 0 (ours: undefined). 1882/16 = 117.625 is printed 117.62: rounded half
    to even. Adding a half to both (Haldane) would give 114.09."""
    odds = paired_effect.odds_ratio(printed_counts(row))
    if row.odds_ratio == "inf":
        assert odds is None
        return
    assert odds is not None
    assert float(f"{odds:.2f}") == float(row.odds_ratio)


@pytest.mark.parametrize("row", ROWS)
def test_the_printed_cells_sum_to_the_pairs(row: Any) -> None:
    assert printed_counts(row).n == {"longbench_v2_hard": 933, "needle": 3000}[row.benchmark]


@functools.cache
def splits(row: Any, ddof: int) -> list[tuple[tuple[int, int], ...]]:
    n_used = int(row.n_discordant_seeds)
    return seed_splits(
        n_a_only=int(row.n_a_only),
        n_b_only=int(row.n_b_only),
        mean=float(row.per_seed_odds_mean),
        sd=float(row.per_seed_odds_sd) if n_used > 1 else None,
        n_used=n_used,
        n_seeds=3,
        ddof=ddof,
        decimals=2,
    )


@pytest.mark.parametrize("row", ROWS)
def test_per_seed_odds_come_out_of_whole_counts_of_three_seeds(row: Any) -> None:
    """The counts by seed are not printed. Mean and sample SD of n_a_only / n_b_only fit whole counts that sum to the
    pooled ones in every row, and seeds with n_b_only = 0 are left out: where one seed is used, all of n_b_only is
    in it. Without such a seed the paper prints inf and 0 seeds (ours: undefined)."""
    if row.n_discordant_seeds == "0":
        assert (row.per_seed_odds_mean, row.per_seed_odds_sd, row.n_b_only) == ("inf", "", "0")
        return
    found = splits(row, ddof=1)
    assert found
    for split in found[:3]:
        odds = paired_effect.seed_odds([counts(a_only, b_only) for a_only, b_only in split])
        assert odds.mean == pytest.approx(float(row.per_seed_odds_mean), abs=0.00501)
        if odds.n_used > 1:
            assert odds.sd == pytest.approx(float(row.per_seed_odds_sd), abs=0.00501)
        else:  # the SD of one seed: the paper prints 0, ours does not exist
            assert (odds.sd, row.per_seed_odds_sd) == (None, "0.0")
            assert split[0][1] == int(row.n_b_only)


def test_the_sd_over_seeds_is_the_samples() -> None:
    """Four rows fit no whole counts at all with the population's SD (ddof = 0), so it is n - 1. With it those four
    and no other fit one split only: their counts by seed are known, up to the order of the seeds."""
    three = [row for row in TABLES.itertuples() if row.n_discordant_seeds == "3"]
    impossible = {(row.benchmark, row.model, row.method_b) for row in three if not splits(row, ddof=0)}
    assert impossible == {
        ("longbench_v2_hard", "qwen3-32b", "rag_memory"),
        ("longbench_v2_hard", "qwen3-32b", "structured_state"),
        ("needle", "qwen3-8b", "full_context"),
        ("needle", "qwen3-8b", "sliding_window"),
    }
    only = {
        (row.benchmark, row.model, row.method_b): found[0] for row in three if len(found := splits(row, ddof=1)) == 1
    }
    assert only == {
        ("longbench_v2_hard", "qwen3-32b", "rag_memory"): ((53, 6), (54, 7), (66, 8)),
        ("longbench_v2_hard", "qwen3-32b", "structured_state"): ((27, 6), (29, 6), (23, 8)),
        ("needle", "qwen3-8b", "full_context"): ((599, 4), (652, 5), (631, 7)),
        ("needle", "qwen3-8b", "sliding_window"): ((423, 3), (445, 6), (432, 8)),
    }


def test_splits_worked_by_hand() -> None:
    # 2 = 1 + 1 and 4 = 1 + 3 over two seeds: odds 1 and 3, mean 2, SD sqrt(2)
    found = seed_splits(
        n_a_only=4, n_b_only=2, mean=2.0, sd=1.41, n_used=2, n_seeds=2, ddof=1, decimals=2
    )  # fmt: skip
    assert found == [((1, 1), (3, 1))]
    # the third seed has no b: what is left of n_a_only may be there
    found = seed_splits(n_a_only=67, n_b_only=2, mean=9.5, sd=None, n_used=1, n_seeds=3, ddof=1, decimals=2)
    assert found == [((19, 2),)]
