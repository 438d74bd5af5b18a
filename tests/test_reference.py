"""The published figures: what the reader gives, and what it refuses."""

from __future__ import annotations

import math
import shutil
from pathlib import Path

import pandas as pd
import pytest

from analysis.reference import PAPER, TABLES, Reference
from arcbench.types import ConfigError

ORIGINAL = Path(__file__).resolve().parents[1] / ".." / "shared" / "paper"


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    folder = tmp_path / "paper"
    shutil.copytree(PAPER, folder)
    return folder


def edit(path: Path, old: str, new: str) -> None:
    text = path.read_text("utf-8")
    assert text.count(old) == 1, text.count(old)
    path.write_text(text.replace(old, new), "utf-8")


def test_every_file_is_a_declared_table_and_every_table_is_described() -> None:
    files = {path.stem for path in PAPER.glob("*.csv")}
    assert files == set(TABLES)
    words = (PAPER / "README.md").read_text("utf-8")
    # two ranges of tables are named by their ends
    assert {name for name in files if name not in words} == {"arc_table10"}


@pytest.mark.parametrize("name", TABLES)
def test_every_table_reads_and_its_numbers_are_the_printed_ones(name: str) -> None:
    table, printed = Reference().table(name), Reference().printed(name)
    assert len(table) == len(printed) > 3
    for column in table:
        if table[column].dtype in ("Int64", "float64"):
            cells = list(printed[column])
            numbers = [None if pd.isna(number) else float(number) for number in table[column]]
            assert numbers == [float(cell) if cell else None for cell in cells], column
        else:
            assert list(table[column]) == list(printed[column]), column


def test_types_and_digits() -> None:
    reference = Reference()
    table = reference.table("arc_table05")
    assert {str(table[c].dtype) for c in ("n_a_only", "n_both", "n_discordant_seeds")} == {"Int64"}
    row = table.set_index(["model", "method_b"]).loc[("qwen3-8b", "full_context")]
    assert row["odds_ratio"] == math.inf
    assert math.isnan(row["per_seed_odds_sd"])
    assert row["p_exact"] == 7.75e-267
    # the digits of the print are kept beside the number
    assert reference.printed("arc_table02").loc[0, "mean_n_success"] == "368.00"
    # a count that is not printed is missing, not 0
    assert reference.table("vista_table07")["n_trim_events"].isna().sum() > 0
    assert len(reference.table("claims")) == 50


def test_the_copies_are_the_originals() -> None:
    if not ORIGINAL.exists():
        pytest.skip("the papers' original tables are not beside this checkout")
    for path in [*PAPER.glob("*.csv"), PAPER / "parameters.yaml"]:
        assert path.read_bytes() == (ORIGINAL / path.name).read_bytes(), path.name


def test_parameters_by_dotted_key() -> None:
    reference = Reference()
    assert reference.parameter("arc.seeds") == [42, 82, 122]
    assert reference.parameter("arc.seeds.source") == "Tables 1, 2, 5, 6, 12; App. C"
    assert reference.parameter("arc.benchmarks.needle.attempts") == 3000
    assert reference.parameter("arc.needle_harness.noise_lines_per_side.ablation") == [5, 10, 25, 30]
    assert reference.parameter("arc.serving.temperature") is None  # named, no number given
    assert set(reference.parameter("arc.models")) == {"qwen3-8b", "qwen3-32b"}


@pytest.mark.parametrize(
    ("key", "complaint"),
    [
        ("arc.sedes", "^arc.sedes: no such parameter; below arc are models, serving, seeds"),
        ("nothing", "below the top are arc, vista"),
        ("arc.seeds.value.more", "below arc.seeds.value are nothing"),
    ],
)
def test_an_unknown_parameter_names_what_there_is(key: str, complaint: str) -> None:
    with pytest.raises(ConfigError, match=complaint):
        Reference().parameter(key)


def test_an_unknown_table_names_what_there_is() -> None:
    with pytest.raises(ConfigError, match="^table arc_table99: unknown; allowed: arc_table01, "):
        Reference().table("arc_table99")


@pytest.mark.parametrize(
    ("old", "new", "complaint"),
    [
        (
            "n_b_only,n_both",
            "n_both,n_b_only",
            "arc_table05.csv: columns benchmark, .*must be, in every row, benchmark",
        ),
        ("llm_summary,91,", "llm_summary,91.5,", "n_a_only=91.5 in row 2; must be a whole number"),
        ("llm_summary,91,", "llm_summary,-1,", "n_a_only=-1 in row 2; must be a whole number"),
        ("2.0e-5", "<0.001", "p_chi2=<0.001 in row 2; must be a number"),
        ("2.0e-5", "nan", "p_chi2=nan in row 2; must be a number"),
        (
            "longbench_v2_hard,qwen3-8b,arc,llm_summary",
            "longbench,qwen3-8b,arc,llm_summary",
            "benchmark=longbench in row 2; must be one of ama_bench, browsecomp_plus",
        ),
        ("2.5,1.38,3", "2.5,1.38,3,9", "not a CSV table"),
    ],
)
def test_a_damaged_table_is_refused_with_its_place(copy: Path, old: str, new: str, complaint: str) -> None:
    edit(copy / "arc_table05.csv", old, new)
    with pytest.raises(ConfigError, match=complaint) as refused:
        Reference(copy).table("arc_table05")
    assert "\n" not in str(refused.value)


def test_a_surplus_cell_in_every_row_is_not_taken_for_an_index(copy: Path) -> None:
    head, *rows = (copy / "arc_table13.csv").read_text("utf-8").splitlines()
    (copy / "arc_table13.csv").write_text("\n".join([head, *(f"x,{row}" for row in rows)]) + "\n", "utf-8")
    with pytest.raises(ConfigError, match="in every row"):
        Reference(copy).table("arc_table13")


def test_a_missing_or_broken_file_is_one_line(copy: Path) -> None:
    (copy / "arc_table01.csv").unlink()
    (copy / "arc_table02.csv").write_bytes(b"")
    (copy / "parameters.yaml").write_text("- a list\n", "utf-8")
    with pytest.raises(ConfigError, match="arc_table01.csv: not there"):
        Reference(copy).table("arc_table01")
    with pytest.raises(ConfigError, match="arc_table02.csv: not a CSV table"):
        Reference(copy).table("arc_table02")
    with pytest.raises(ConfigError, match="not a YAML mapping"):
        Reference(copy).parameter("arc")


def test_a_corrected_table_is_read_in_place_of_the_published_one(copy: Path) -> None:
    edit(copy / "arc_table03.csv", "-9.8", "-48.2")
    assert -48.2 in set(Reference(copy).table("arc_table03")["savings_pct"])
    assert -48.2 not in set(Reference().table("arc_table03")["savings_pct"])
