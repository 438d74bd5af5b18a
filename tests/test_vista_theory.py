"""VISTA's bounds against simulation: that all of them hold, and that the check can fail."""

from __future__ import annotations

import dataclasses
import math
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import yaml

from analysis import make_room, make_room_cells
from analysis import vista_theory as theory

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
def settings(tmp_path: Path) -> make_room_cells.Settings:
    return make_room_cells.Settings.read(settings_file(tmp_path))


# --------------------------------------------------------------------------------- the check itself


def violated(cells: list[make_room_cells.Cell]) -> dict[str, set[str]]:
    return {cell.place: {claim.name for claim in cell.violations()} for cell in cells if cell.violations()}


def test_every_bound_holds_in_every_committed_cell() -> None:
    quick = dataclasses.replace(make_room_cells.Settings.read(COMMITTED), trials=400)
    ledger, signal = make_room_cells.ledger_cells(quick), make_room_cells.signal_cells(quick)
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
        read = make_room_cells.Settings.read(settings_file(tmp_path, trials=50, **changes))
        return [cell.row for cell in (*make_room_cells.ledger_cells(read), *make_room_cells.signal_cells(read))]

    once = rows()
    assert once == rows()
    assert once != rows(seed=8)
    assert all(row in rows(blocks=[30, 40]) for row in once)


def test_a_policy_that_knows_more_than_its_rate_breaks_the_floor(
    settings: make_room_cells.Settings, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def informed(n: int, buckets: int, trials: int, rng: np.random.Generator) -> make_room.Places:
        return make_room.simulate_ledger(n, n, trials, rng)  # the full ledger, whatever was declared

    cells = make_room_cells.ledger_cells(settings, informed)
    found = violated(cells)
    below = {cell.place for cell in cells if cell.row["z_lower"] > 0}
    assert {place for place, names in found.items() if "Theorem 1: floor <= mean Z" in names} == below
    assert "ledger n=40 kappa=3 bits=0" in below
    assert any("Lemma 1, lists of kappa: missing bits <= bound" in names for names in found.values())
    assert theory.report(cells, make_room_cells.signal_cells(settings), settings, tmp_path) == 1
    seen = capsys.readouterr()
    assert f": {sum(map(len, found.values()))} violated" in seen.out
    floor = make_room.lower_bound(0, 40, 3)
    line = f"Theorem 1: floor <= mean Z ({floor:.6g} is above 0 by more than 0)"
    assert f"violated in ledger n=40 kappa=3 bits=0: {line}" in seen.err.splitlines()
    assert "| no: " in (tmp_path / "vista_theory_ledger.md").read_text("utf-8")


def test_a_policy_that_forgets_its_bucket_breaks_the_ceiling(settings: make_room_cells.Settings) -> None:
    def forgetful(n: int, buckets: int, trials: int, rng: np.random.Generator) -> make_room.Places:
        return make_room.simulate_ledger(n, 1, trials, rng)

    found = violated(make_room_cells.ledger_cells(settings, forgetful))
    assert "Appendix D: mean Z <= (ceil(n/M) - 1)/2" in found["ledger n=40 kappa=3 bits=5"]
    assert "ledger n=40 kappa=3 bits=0" not in found


def test_a_policy_that_restores_for_itself_is_seen(settings: make_room_cells.Settings) -> None:
    def lucky(n: int, buckets: int, trials: int, rng: np.random.Generator) -> make_room.Places:
        return np.maximum(1, make_room.simulate_ledger(n, buckets, trials, rng) - 1)

    found = violated(make_room_cells.ledger_cells(settings, lucky))
    assert found["ledger n=40 kappa=3 bits=3"] == {
        "simulation: |mean Z - exact E[Z]| = 0",
        "restoring: E[Z] - r <= mean unavailable",
    }


def test_a_signal_clearer_than_its_sigma_breaks_proposition_2s_bound(settings: make_room_cells.Settings) -> None:
    def clear(
        n: int, kappa: int, sigma: float, trials: int, rng: np.random.Generator
    ) -> tuple[make_room.Places, make_room.Floats]:
        return make_room.simulate_signal(n, kappa, sigma / 12, trials, rng)

    found = violated(make_room_cells.signal_cells(settings, clear))
    names = found["signal n=40 kappa=3 sigma=6"]
    assert {"Proposition 2: information <= bound", "Theorem 1 at Proposition 2's bits: floor <= mean Z"} <= names


def test_a_wrong_bound_is_seen_and_a_value_that_is_no_number_never_holds() -> None:
    claim = make_room_cells.Claim(name="x", low=1.1, high=1.0, tolerance=0.05)
    assert not claim.holds
    assert make_room_cells.Claim(name="x", low=1.1, high=1.0, tolerance=0.2).holds
    assert not make_room_cells.Claim(name="x", low=math.nan, high=1.0, tolerance=9.0).holds


def test_with_no_error_allowed_the_command_says_what_it_found(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = settings_file(tmp_path, standard_errors=0, trials=200)
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
