"""Dollars per task: the prices, the formula on the paper's own ledger, and rows worked out by hand."""

from __future__ import annotations

import asyncio
import csv
import math
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
import yaml
from fakes import CONF, compose
from scipy import stats

from analysis import cost
from analysis.cost import Prices
from arcbench.records import RunFolder
from arcbench.runner.cell import Cell, run_episodes
from arcbench.types import ConfigError

PAPER = Path(__file__).resolve().parents[2] / "shared" / "paper"
GEMINI = CONF / "prices/gemini-3-flash.yaml"
LIST: dict[str, Any] = {
    "id": "round",
    "source": "made up",
    "usd_per_m_tokens": {"uncached_input": 1.0, "cached_input": 0.1, "output": 10},
    "cache_block_tokens": 16,
}
ROUND = Prices(
    id="round", source="made up", uncached_input=1.0, cached_input=0.1, output=10, cache_block_tokens=16
)  # fmt: skip


def printed(name: str) -> str:
    """A file of the paper's figures, or a skip."""
    path = PAPER / name
    if not path.exists():
        pytest.skip(f"no {name}: the paper's figures are not beside this checkout")
    return path.read_text("utf-8")


# ------------------------------------------------------------------------------------------ prices


def test_dollars_of_an_episode() -> None:
    # 900,000 uncached at 1, 100,000 cached at 0.1, 50,000 generated at 10 a million
    assert ROUND.usd(input_tokens=1e6, cached_tokens=1e5, output_tokens=5e4) == pytest.approx(0.9 + 0.01 + 0.5)


def test_the_papers_table_follows_from_its_own_tokens() -> None:
    prices = Prices.read(GEMINI)
    off = []
    for row in csv.DictReader(printed("vista_table02.csv").splitlines()):
        tokens = float(row["input_tokens_m"]) * 1e6
        served = tokens * float(row["cache_rate_pct"]) / 100
        usd = prices.usd(input_tokens=tokens, cached_tokens=served, output_tokens=float(row["output_tokens_m"]) * 1e6)
        if f"{usd:.2f}" != row["cost_usd"]:
            off.append(f"{row['method']}: {usd:.4f} for {row['cost_usd']}")
    assert off == []


def test_the_papers_prices() -> None:
    stated = yaml.safe_load(printed("parameters.yaml"))["vista"]["prices_usd_per_m_tokens"]
    prices = Prices.read(GEMINI)
    assert {key: getattr(prices, key) for key in cost.PRICES} == {key: stated[key] for key in cost.PRICES}
    assert prices.id == stated["model"]


@pytest.mark.parametrize("path", sorted((CONF / "prices").glob("*.yaml")), ids=lambda path: path.stem)
def test_every_list_of_prices_is_read_under_its_own_name(path: Path) -> None:
    assert Prices.read(path).id == path.stem


def test_a_price_may_be_nothing(tmp_path: Path) -> None:
    path = tmp_path / "free.yaml"
    path.write_text(yaml.safe_dump(changed(cached_input=0)))
    assert Prices.read(path).usd(input_tokens=8, cached_tokens=8, output_tokens=0) == 0


def changed(**changes: Any) -> dict[str, Any]:
    return LIST | {"usd_per_m_tokens": LIST["usd_per_m_tokens"] | changes}


BAD: list[tuple[Any, str]] = [
    (changed(output=-1), "usd_per_m_tokens.output=-1: must be a number of at least 0"),
    (changed(output="3 dollars"), "usd_per_m_tokens.output=3 dollars: must be a number of at least 0"),
    (changed(output=None), "usd_per_m_tokens.output=None: must be a number of at least 0"),
    (changed(output=True), "usd_per_m_tokens.output=True: must be a number of at least 0"),
    (changed(output=math.nan), "usd_per_m_tokens.output=nan: must be a number of at least 0"),
    (changed(output=math.inf), "usd_per_m_tokens.output=inf: must be a number of at least 0"),
    (changed(cache_write=1), "usd_per_m_tokens: cache_write is unknown; must have exactly these keys: uncached_input,"),
    (LIST | {"usd_per_m_tokens": {"output": 1, "cached_input": 1}}, "usd_per_m_tokens: uncached_input is missing;"),
    (LIST | {"usd_per_m_tokens": 3}, "usd_per_m_tokens: 3: must have exactly these keys"),
    (LIST | {"ttl": 5}, "ttl is unknown; must have exactly these keys: id, source,"),
    (LIST | {"source": ""}, "source=: must be a text"),
    (LIST | {"cache_block_tokens": 0}, "cache_block_tokens=0: must be a whole number of at least 1"),
    (None, ": None: must have exactly these keys"),
]


@pytest.mark.parametrize(("given", "line"), BAD, ids=[line for _, line in BAD])
def test_bad_prices_are_one_line(given: Any, line: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "prices.yaml"
    path.write_text(yaml.safe_dump(given))
    assert cost.main(["--prices", str(path), "--runs", str(tmp_path)]) == 2
    said = capsys.readouterr().err
    assert said.startswith(str(path))
    assert line in said
    assert said.count("\n") == 1


def test_no_prices_no_yaml_and_no_runs_are_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "bad.yaml").write_text("id: [\n")
    for arguments, line in (
        (["--prices", str(tmp_path / "none.yaml")], "none.yaml"),
        (["--prices", str(tmp_path / "bad.yaml")], "must be a YAML file"),
        (["--prices", str(GEMINI), "--runs", str(tmp_path)], "no runs here"),
    ):
        assert cost.main(arguments) == 2
        said = capsys.readouterr().err
        assert line in said
        assert said.count("\n") == 1


# ------------------------------------------------------------------------------------------- rows


def call(billed: str, messages: list[int], prompt: int, cached: int | None, completion: int) -> dict[str, Any]:
    return {
        "billed": billed, "messages": messages, "prompt_tokens": prompt, "cached_tokens": cached,
        "completion_tokens": completion,
    }  # fmt: skip


def episode(task: str, outcome: str, *calls: dict[str, Any]) -> dict[str, Any]:
    return {"task": task, "outcome": outcome, "calls": list(calls), "messages": [{"tokens": 100}, {"tokens": 60}]}


def two_calls(task: str, outcome: str = "correct", cached: tuple[int | None, int | None] = (0, 64)) -> dict[str, Any]:
    """160 tokens at once, of which the second call shares 100: 96 in blocks. The method asks for one call more."""
    return episode(
        task,
        outcome,
        call("agent", [0], 105, cached[0], 10),
        call("agent", [0, 1], 165, cached[1], 20),
        call("method", [1], 65, 16 if cached[0] is not None else None, 5),
    )


class ARun:
    """Stands for a run folder."""

    def __init__(self, *records: dict[str, Any], seed: int = 1, **changes: Any) -> None:
        self.records = records
        names = {"method": "arc", "variant": None, "engine": "vllm", "harness": "h", "profile": "p", "budget": "b"}
        self.columns = names | {"recall": "r", "model": "m", "seed": seed, "planned": len(records)} | changes
        self.columns |= {"protocol": "1", "digest": "d"}
        self.columns.setdefault("run_dir", f"runs/{self.columns['method']}/{seed}")
        self.path = self.columns["run_dir"]
        self.config: dict[str, Any] = {"seed": seed, "digest_ignores": ["results_dir"], "results_dir": self.path}

    def episodes(self) -> list[dict[str, Any]]:
        return list(self.records)


def rows(*runs: ARun) -> list[dict[str, Any]]:
    return cost.costs(*cost.frames(iter(runs), ROUND), ROUND).to_dict("records")  # type: ignore[arg-type]


def test_a_row_with_what_the_engine_recorded() -> None:
    (row,) = rows(ARun(two_calls("a"), two_calls("b", "wrong"), two_calls("c", "error"), planned=5))
    agent = (270 - 64) * 1 + 64 * 0.1 + 30 * 10
    method = (65 - 16) * 1 + 16 * 0.1 + 5 * 10
    assert row["cache"] == "recorded"
    assert row["usd_per_episode"] == pytest.approx((agent + method) / 1e6)
    assert row["agent_usd_per_episode"] == pytest.approx(agent / 1e6)
    assert row["method_usd_per_episode"] == pytest.approx(method / 1e6)
    assert row["method_share_pct"] == pytest.approx(100 * method / (agent + method))
    # errors are in no number but their count
    assert row["usd_total"] == pytest.approx(2 * (agent + method) / 1e6)
    assert row["usd_per_success"] == pytest.approx(row["usd_total"])
    assert (row["n_planned"], row["n_run"], row["n_error"], row["n_missing"], row["n_success"]) == (5, 2, 1, 2, 1)
    assert (row["input_tokens_per_episode"], row["output_tokens_per_episode"]) == (335, 35)
    assert row["cached_recorded_pct"] == pytest.approx(100 * 80 / 335)
    assert row["cached_modelled_pct"] == pytest.approx(100 * 96 / 335)


def test_a_row_with_a_call_that_does_not_say_is_modelled_whole() -> None:
    mixed = [two_calls("a"), two_calls("b", cached=(None, 64))]
    runs, episodes = cost.frames(iter([ARun(*mixed)]), ROUND)  # type: ignore[list-item]
    data = cost.costs(runs, episodes, ROUND)
    (row,) = data.to_dict("records")
    assert row["cache"] == "modelled"
    assert math.isnan(row["cached_recorded_pct"])
    assert row["usd_per_episode"] == pytest.approx(((335 - 96) * 1 + 96 * 0.1 + 35 * 10) / 1e6)
    sheet = cost.cost_sheet("h", data, ROUND)
    assert sheet.body["cached %, recorded"].tolist() == ["—"]
    assert sheet.body["cache"].tolist() == ["modelled"]
    assert any("1 of 2 episodes have calls without reported cached tokens" in note for note in sheet.notes)


def test_seeds_are_pooled_and_rows_that_differ_are_not() -> None:
    other = ARun(two_calls("a"), method="sliding_window")
    again = ARun(two_calls("b"), seed=2)
    loose = ARun(two_calls("c"), seed=3)
    loose.config["method"] = {"preview_chars": 60}
    found = rows(ARun(two_calls("a")), loose, other, again)
    assert [(row["method"], row["setting"], row["seeds"]) for row in found] == [
        ("sliding_window", "", "1"),
        ("arc", "", "1 2"),
        ("arc", "preview_chars=60", "3"),
    ]


def test_a_budget_that_differs_between_methods_is_said() -> None:
    tight, wide = ARun(two_calls("a")), ARun(two_calls("a"), method="sliding_window")
    tight.config["budget"], wide.config["budget"] = {"window_tokens": 10}, {"window_tokens": 20}
    assert [row["setting"] for row in rows(tight, wide)] == ["window_tokens=20", "window_tokens=10"]


def test_no_correct_answer_and_no_episode_have_no_price() -> None:
    runs = [ARun(two_calls("a", "wrong")), ARun(two_calls("a", "error"), method="sliding_window")]
    data = cost.costs(*cost.frames(iter(runs), ROUND), ROUND)  # type: ignore[arg-type]
    sheet = cost.cost_sheet("h", data, ROUND)
    body = sheet.body.set_index("method")
    assert body.loc["arc", "usd per correct"] == "—"
    assert body.loc["arc", "usd total"] != "—"
    numbers = ["usd per task", "95 % interval", "method's own %", "usd per correct", "usd total", "cache"]
    assert body.loc["sliding_window †", numbers].tolist() == ["—"] * len(numbers)
    assert any(note.startswith("† vllm, sliding_window is incomplete: 1 error, 0 missing of 1") for note in sheet.notes)


def test_runs_that_would_count_a_seed_twice_are_refused() -> None:
    with pytest.raises(ConfigError, match="two runs of arc with the same configuration for seed 1: x and y "):
        rows(ARun(two_calls("a"), run_dir="x"), ARun(two_calls("a"), run_dir="y"))


def test_an_outcome_that_nobody_knows_is_refused() -> None:
    with pytest.raises(ConfigError, match="outcome=lost of task a: must be one of correct, wrong, no_answer, error"):
        rows(ARun(two_calls("a", "lost")))


def test_the_interval_of_tasks_played_once_is_students() -> None:
    values = [1.0, 2.0, 4.0, 4.5]
    expected = stats.t.interval(0.95, 3, loc=2.875, scale=stats.sem(values))
    assert cost.mean_interval(values, list("abcd")) == pytest.approx(expected)


def test_the_interval_takes_one_task_under_several_seeds_as_one() -> None:
    # the same four tasks under three seeds, no noise between seeds: nothing is learned from the repeats
    once = cost.mean_interval([1.0, 2.0, 4.0, 4.5], list("abcd"))
    assert cost.mean_interval([1.0, 2.0, 4.0, 4.5] * 3, list("abcd") * 3) == pytest.approx(once)


def test_the_interval_ends_at_nothing_and_needs_two_tasks() -> None:
    assert cost.mean_interval([0.1, 3.0], ["a", "b"])[0] == 0
    assert all(math.isnan(end) for end in cost.mean_interval([1.0, 2.0], ["a", "a"]))


# -------------------------------------------------------------------------------------- the command


def play(tmp_path: Path, *words: str) -> None:
    cell = Cell.compose(compose(*words, "harness.n_tasks=2", f"results_dir={tmp_path / 'runs'}"))
    with RunFolder(cell.run_dir, cell.config, cell.config["digest_ignores"]) as folder:
        tasks = cell.harness.tasks()
        folder.write_manifest(cell.manifest({}, cell.engine, len(tasks)))
        asyncio.run(run_episodes(cell.setup(cell.engine), tasks, folder, cell.timeout_s, len(tasks)))


def test_the_command_on_real_runs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for words in (["method=sliding_window"], ["method=sliding_window", "seed=82"], ["method=llm_summary"]):
        play(tmp_path, *words)
    arguments = ["--runs", str(tmp_path / "runs"), "--tables", str(tmp_path / "tables"), "--prices", str(GEMINI)]
    assert cost.main(arguments) == 0
    assert {path.name for path in (tmp_path / "tables").iterdir()} == {f"cost_needle.{s}" for s in ("csv", "md", "tex")}
    table = pd.read_csv(tmp_path / "tables/cost_needle.csv").set_index("method")
    assert table["n_run"].to_dict() == {"sliding_window": 4, "llm_summary": 2}
    assert set(table["cache"]) == {"modelled"}
    assert table["cached_recorded_pct"].isna().all()
    assert table["cached_modelled_pct"].between(30, 95).all()
    # only a summary is a call of the method's own
    assert table.loc["sliding_window", "method_share_pct"] == 0
    assert 20 < table.loc["llm_summary", "method_share_pct"] < 60
    assert "cache modelled" in capsys.readouterr().out


def test_an_engine_whose_tokens_say_nothing_has_no_costs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    play(tmp_path, "method=sliding_window", "engine=mock")
    capsys.readouterr()  # the progress bar
    assert cost.main(["--runs", str(tmp_path / "runs"), "--prices", str(GEMINI)]) == 2
    said = capsys.readouterr().err
    assert "only runs of engines whose tokens say nothing (mock, replay)" in said
    assert said.count("\n") == 1
