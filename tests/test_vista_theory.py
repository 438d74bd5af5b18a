"""VISTA's bounds: the formulas by hand, the simulation against the instance itself, and that the check can fail."""

from __future__ import annotations

import dataclasses
import math
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import yaml

from analysis import vista_theory as theory
from arcbench.types import ConfigError

COMMITTED = Path(__file__).parents[1] / "conf/theory/vista.yaml"
SMALL: dict[str, Any] = {
    "blocks": [40], "kappas": [3], "bits_step": 1, "sigmas": [0.5, 2, 6], "restorable": 1, "trials": 4000,
    "standard_errors": 4, "seed": 7,
}  # fmt: skip


def settings_file(folder: Path, **changes: Any) -> Path:
    path = folder / "settings.yaml"
    path.write_text(yaml.safe_dump(SMALL | changes))
    return path


@pytest.fixture
def settings(tmp_path: Path) -> theory.Settings:
    return theory.Settings.read(settings_file(tmp_path))


# ----------------------------------------------------------------------------------------- bounds


def test_the_floor_falls_by_kappa_over_nu_a_bit_down_to_nothing() -> None:
    # nu = log2((72 - 8)/8) = 3
    assert theory.lower_bound(0, 72, 8) == pytest.approx(8 * 2 / 3)
    assert theory.lower_bound(1, 72, 8) == pytest.approx(8 / 3)
    assert theory.lower_bound(2, 72, 8) == theory.lower_bound(6, 72, 8) == 0


def test_the_other_bounds_by_hand() -> None:
    assert theory.upper_bound(10, 4) == 1  # buckets of at most 3
    assert theory.bits_needed(0.5, 72, 8) == 0.5
    assert theory.bits_needed(0.9, 72, 8) == 0
    assert theory.bits_enough(0.5, 72, 8) == math.log2(9)
    assert theory.bits_enough(0.0, 72, 8) == theory.bits_enough(0.001, 72, 8) == math.log2(72)
    assert theory.signal_information_bound(1000, 4, 2) == pytest.approx(math.log(2))
    assert theory.signal_information_bound(64, 4, 0.1) == 6
    assert theory.list_bound(0.5, 4, 20) == 1 + 1 + 2
    assert theory.unavailable_bound(3.5, 2) == 1.5
    assert theory.unavailable_bound(1.5, 2) == 0


def test_what_a_prompt_can_hold_bounds_the_answers_it_can_give() -> None:
    assert theory.recovery_bound(100, 10, 40) == 0.25 + 0.025
    assert theory.recovery_bound(0, 10, 40) == 0.025
    assert theory.recovery_bound(500, 10, 40) == 1
    with pytest.raises(ConfigError, match=r"bits_each=0: must be a number of at least 1"):
        theory.recovery_bound(100, 10, 0)


@pytest.mark.parametrize(("n", "kappa"), [(20, 1), (20, 10), (20, 15), (20, 2.5), (4, 2)])
def test_outside_its_conditions_the_theorem_says_nothing(n: int, kappa: int) -> None:
    with pytest.raises(ConfigError, match=rf"kappa={kappa}: must be a whole number from 2 to below n/2 = {n / 2:g} "):
        theory.lower_bound(1, n, kappa)


@pytest.mark.parametrize("delta", [0.05, 0.1, 0.3, 0.5, 0.9])
@pytest.mark.parametrize(("n", "kappa"), [(40, 3), (250, 16), (1000, 4)])
def test_so_many_bits_are_enough_and_so_many_are_needed(n: int, kappa: int, delta: float) -> None:
    enough = theory.bits_enough(delta, n, kappa)
    assert theory.exact_ledger_mean(n, theory.bucket_count(enough, n), kappa) <= delta * kappa
    reached = [m for m in range(1, n + 1) if theory.exact_ledger_mean(n, m, kappa) <= delta * kappa]
    assert theory.bits_needed(delta, n, kappa) <= theory.ledger_bits(n, reached[0]) <= enough + 1e-9


# ------------------------------------------------------------------------------- the two interfaces


def test_a_rate_that_is_the_logarithm_of_a_number_gives_so_many_buckets() -> None:
    assert all(theory.bucket_count(math.log2(m), 5000) == m for m in range(1, 5001))
    assert [theory.bucket_count(bits, 10) for bits in (0, 0.9, 2.9, 3.32, 50)] == [1, 1, 7, 9, 10]


def test_buckets_are_balanced_and_say_at_most_the_logarithm_of_their_number() -> None:
    assert list(theory.bucket_sizes(10, 4)) == [3, 3, 2, 2]
    # 2 x 0.3 log2(1/0.3) + 2 x 0.2 log2(1/0.2)
    assert theory.ledger_bits(10, 4) == pytest.approx(1.970951)
    assert theory.ledger_bits(12, 4) == 2
    assert theory.ledger_bits(10, 10) == pytest.approx(math.log2(10))


@pytest.mark.parametrize(("n", "buckets", "kappa"), [(10, 4, 3), (40, 1, 3), (40, 7, 5), (40, 40, 2), (41, 2, 19)])
def test_the_exact_mean_of_a_ledger_is_that_of_counting_all_cases(n: int, buckets: int, kappa: int) -> None:
    total = Fraction(0)
    for block in range(n):
        size = len(range(block % buckets, n, buckets))
        total += Fraction(sum(min(place, kappa) for place in range(size)), size * n)
    assert theory.exact_ledger_mean(n, buckets, kappa) == pytest.approx(float(total))


def test_the_exact_law_of_a_signal() -> None:
    # with no signal to speak of, tau is uniform
    assert theory.signal_law(40, 3, 1e6) == pytest.approx([1 / 40, 1 / 40, 1 / 40, 37 / 40], abs=1e-6)
    assert theory.signal_law(40, 3, 0.01) == pytest.approx([1, 0, 0, 0])
    # P(some other one of two blocks comes first) = P(N(0, 2 sigma^2) > ln kappa)
    assert theory.signal_law(2, 2, 1.0)[0] == pytest.approx(1 - math.erfc(math.log(2) / 2) / 2)


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
        assert theory.blocks_lost(np.array([place]), kappa)[0] == needed


def test_a_ledger_probes_its_bucket_in_uniform_order() -> None:
    places = theory.simulate_ledger(10, 4, 60_000, np.random.default_rng(1))
    # 6 of 10 blocks are in a bucket of 3, 4 in one of 2
    expected = np.array([0.2 + 0.2, 0.2 + 0.2, 0.2])
    share = np.bincount(places, minlength=4)[1:] / len(places)
    assert share == pytest.approx(expected, abs=4 * 0.5 / math.sqrt(len(places)))
    assert set(theory.simulate_ledger(10, 10, 100, np.random.default_rng(1))) == {1}


def test_the_information_of_a_signal_is_that_of_the_posterior() -> None:
    # two blocks: the posterior is a function of d = W_1 - W_2 alone; the information by integration over d
    d = np.linspace(-25, 25, 20_001)
    shift = math.log(2)
    either = [np.exp(-((d - sign * shift) ** 2) / 4) / math.sqrt(4 * math.pi) for sign in (1, -1)]
    both = (either[0] + either[1]) / 2
    exact = float((either[0] * np.log2(either[0] / both)).sum() * (d[1] - d[0]))
    _, entropies = theory.simulate_signal(2, 2, 1.0, 20_000, np.random.default_rng(1))
    assert 1 - entropies.mean() == pytest.approx(exact, abs=4 * entropies.std() / math.sqrt(len(entropies)))


# --------------------------------------------------------------------------------- the check itself


def violated(cells: list[theory.Cell]) -> dict[str, set[str]]:
    return {cell.place: {claim.name for claim in cell.violations()} for cell in cells if cell.violations()}


def test_every_bound_holds_in_every_committed_cell() -> None:
    quick = dataclasses.replace(theory.Settings.read(COMMITTED), trials=400)
    ledger, signal = theory.ledger_cells(quick), theory.signal_cells(quick)
    assert violated([*ledger, *signal]) == {}
    pairs = {(n, kappa) for n in quick.blocks for kappa in quick.kappas}
    assert len(signal) == len(pairs) * len(quick.sigmas)
    full = {(cell.row["blocks"], cell.row["kappa"]) for cell in ledger if cell.row["z_mean"] == 0}
    assert full == pairs, "the full ledger loses nothing"
    told = {(cell.row["blocks"], cell.row["kappa"]) for cell in ledger if cell.row["z_lower"] > 0}
    assert told == pairs, "a floor that says nothing"


def test_the_command_writes_sheets_and_figure_and_says_what_it_checked(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert theory.main(["--settings", str(settings_file(tmp_path)), "--tables", str(tmp_path)]) == 0
    seen = capsys.readouterr()
    assert seen.err == ""
    ledger, signal = (pd.read_csv(tmp_path / f"vista_theory_{kind}.csv") for kind in ("ledger", "signal"))
    assert list(ledger["bits"]) == [0, 1, 2, 3, 4, 5, round(math.log2(40), 6)]
    assert list(signal["sigma"]) == SMALL["sigmas"]
    claims = ledger["claims"].sum() + signal["claims"].sum()
    assert f"checked 7 ledger and 3 signal cells, {claims} inequalities, within 4 standard errors: 0 viol" in seen.out
    assert {path.suffix for path in tmp_path.glob("vista_theory*")} == {".csv", ".md", ".tex", ".svg", ".png"}


def test_a_run_is_the_same_each_time_and_a_cell_does_not_depend_on_the_others(tmp_path: Path) -> None:
    def rows(**changes: Any) -> list[Any]:
        read = theory.Settings.read(settings_file(tmp_path, trials=50, **changes))
        return [cell.row for cell in (*theory.ledger_cells(read), *theory.signal_cells(read))]

    once = rows()
    assert once == rows()
    assert once != rows(seed=8)
    assert all(row in rows(blocks=[30, 40]) for row in once)


def test_a_policy_that_knows_more_than_its_rate_breaks_the_floor(
    settings: theory.Settings, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def informed(n: int, buckets: int, trials: int, rng: np.random.Generator) -> theory.Places:
        return theory.simulate_ledger(n, n, trials, rng)  # the full ledger, whatever was declared

    cells = theory.ledger_cells(settings, informed)
    found = violated(cells)
    below = {cell.place for cell in cells if cell.row["z_lower"] > 0}
    assert {place for place, names in found.items() if "Theorem 1: floor <= mean Z" in names} == below
    assert "ledger n=40 kappa=3 bits=0" in below
    assert any("Lemma 1, lists of kappa: missing bits <= bound" in names for names in found.values())
    assert theory.report(cells, theory.signal_cells(settings), settings, tmp_path) == 1
    seen = capsys.readouterr()
    assert f": {sum(map(len, found.values()))} violated" in seen.out
    floor = theory.lower_bound(0, 40, 3)
    line = f"Theorem 1: floor <= mean Z ({floor:.6g} is above 0 by more than 0)"
    assert f"violated in ledger n=40 kappa=3 bits=0: {line}" in seen.err.splitlines()
    assert "| no: " in (tmp_path / "vista_theory_ledger.md").read_text("utf-8")


def test_a_policy_that_forgets_its_bucket_breaks_the_ceiling(settings: theory.Settings) -> None:
    def forgetful(n: int, buckets: int, trials: int, rng: np.random.Generator) -> theory.Places:
        return theory.simulate_ledger(n, 1, trials, rng)

    found = violated(theory.ledger_cells(settings, forgetful))
    assert "Appendix D: mean Z <= (ceil(n/M) - 1)/2" in found["ledger n=40 kappa=3 bits=5"]
    assert "ledger n=40 kappa=3 bits=0" not in found


def test_a_policy_that_restores_for_itself_is_seen(settings: theory.Settings) -> None:
    def lucky(n: int, buckets: int, trials: int, rng: np.random.Generator) -> theory.Places:
        return np.maximum(1, theory.simulate_ledger(n, buckets, trials, rng) - 1)

    found = violated(theory.ledger_cells(settings, lucky))
    assert found["ledger n=40 kappa=3 bits=3"] == {
        "simulation: |mean Z - exact E[Z]| = 0",
        "restoring: E[Z] - r <= mean unavailable",
    }


def test_a_signal_clearer_than_its_sigma_breaks_proposition_2s_bound(settings: theory.Settings) -> None:
    def clear(
        n: int, kappa: int, sigma: float, trials: int, rng: np.random.Generator
    ) -> tuple[theory.Places, theory.Floats]:
        return theory.simulate_signal(n, kappa, sigma / 12, trials, rng)

    found = violated(theory.signal_cells(settings, clear))
    names = found["signal n=40 kappa=3 sigma=6"]
    assert {"Proposition 2: information <= bound", "Theorem 1 at Proposition 2's bits: floor <= mean Z"} <= names


def test_a_wrong_bound_is_seen_and_a_value_that_is_no_number_never_holds() -> None:
    claim = theory.Claim(name="x", low=1.1, high=1.0, tolerance=0.05)
    assert not claim.holds
    assert theory.Claim(name="x", low=1.1, high=1.0, tolerance=0.2).holds
    assert not theory.Claim(name="x", low=math.nan, high=1.0, tolerance=9.0).holds


def test_with_no_error_allowed_the_command_says_what_it_found(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = settings_file(tmp_path, standard_errors=0)
    assert theory.main(["--settings", str(path), "--tables", str(tmp_path)]) == 1
    lines = capsys.readouterr().err.splitlines()
    assert lines
    assert all(line.startswith("violated in ") for line in lines)


# --------------------------------------------------------------------------------------- bad input


@pytest.mark.parametrize(
    ("changes", "line"),
    [
        ({"kappas": [3, 20]}, "kappa=20: must be a whole number from 2 to below n/2 = 20 (n=40 blocks)"),
        ({"kappas": [1]}, "kappa=1: must be a whole number from 2 to below n/2 = 20 (n=40 blocks)"),
        ({"blocks": []}, "blocks=[]: must be a list of numbers, each once"),
        ({"blocks": 40}, "blocks=40: must be a list of numbers, each once"),
        ({"blocks": [40, 40]}, "blocks=[40, 40]: must be a list of numbers, each once"),
        ({"blocks": ["many"]}, "blocks=many: must be a whole number of at least 1"),
        ({"sigmas": [0]}, "sigmas=0: must be a number above 0"),
        ({"sigmas": [math.nan]}, "sigmas=nan: must be a number above 0"),
        ({"bits_step": -1}, "bits_step=-1: must be a number above 0"),
        ({"trials": 1}, "trials=1: must be a whole number of at least 2"),
        ({"restorable": -1}, "restorable=-1: must be a whole number of at least 0"),
        ({"standard_errors": True}, "standard_errors=True: must be a number of at least 0"),
        ({"seed": 1.5}, "seed=1.5: must be a whole number of at least 0"),
    ],
)
def test_bad_settings_are_refused_in_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], changes: dict[str, Any], line: str
) -> None:
    path = settings_file(tmp_path, **changes)
    assert theory.main(["--settings", str(path), "--tables", str(tmp_path / "tables")]) == 2
    assert capsys.readouterr().err == line + "\n"
    assert not (tmp_path / "tables").exists()


@pytest.mark.parametrize("text", ["trials: 3\n", "- 3\n", "a: [\n"])
def test_a_file_that_is_no_settings_is_refused_in_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], text: str
) -> None:
    path = tmp_path / "settings.yaml"
    path.write_text(text)
    assert theory.main(["--settings", str(path)]) == 2
    error = capsys.readouterr().err
    assert error.startswith(f"{path}: ")
    assert error.count("\n") == 1


def test_a_missing_file_is_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert theory.main(["--settings", str(tmp_path / "none.yaml")]) == 2
    assert capsys.readouterr().err.count("\n") == 1
