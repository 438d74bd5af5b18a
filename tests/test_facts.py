"""Facts asked for last: what the prompt held, by hand; the bound; and that the check can fail."""

from __future__ import annotations

import asyncio
import json
import shutil
from pathlib import Path
from typing import Any, ClassVar

import pandas as pd
import pytest
from fakes import compose

from analysis import facts
from analysis.facts import WITHOUT_RECOVERY, Settings, State, state_of
from arcbench.records import RunFolder
from arcbench.runner.cell import Cell, run_episodes
from arcbench.types import ConfigError

CHECK = Path(__file__).parents[1] / "conf/theory/facts.yaml"
SETTINGS = Settings(vocabulary=1024, standard_errors=4)

# Two pages, with a value on each; of the second one the question is asked, by the page itself. Before it was asked for,
# the first page had become a line without its value.
MESSAGES = [("system", "s", 10), ("user", "task", 20), ("assistant", "next A", 3), ("user", "RECORD=one", 30),
            ("user", "one page left", 4), ("assistant", "next B", 3), ("user", "RECORD=two ASKED FOR", 40),
            ("assistant", "submit NEEDLE=two", 5), ("user", "ok", 1)]  # fmt: skip
RECORD: dict[str, Any] = {
    "task": "t/0",
    "outcome": "correct",
    "facts": {"codes": ["A", "B"], "values": ["one", "two", "three"], "asked": 1, "value": "two"},
    "messages": [{"role": role, "content": text, "tokens": tokens} for role, text, tokens in MESSAGES],
    "turns": [
        {"call": 1, "reply": 2, "result": 3, "action": "next A", "answered_by": "environment", "returncode": 0},
        {"call": 2, "reply": 5, "result": 6, "action": "next B", "answered_by": "environment", "returncode": 0},
        {"call": 3, "reply": 7, "result": 8, "action": "submit X", "answered_by": "environment", "returncode": 0},
    ],
    "calls": [
        {"billed": "agent", "messages": [0, 1]},
        {"billed": "method", "messages": [0, 3]},
        {"billed": "agent", "messages": [0, 1, 4]},
        {"billed": "agent", "messages": [0, 1, 4, 5, 6]},
    ],
    "method_failures": ["summary_cut"],
}


class OneRun:
    """Stands for a run folder."""

    path = Path("run")
    columns: ClassVar = {name: name for name in facts.BLOCK} | {"method": "sliding_window", "variant": None}

    def __init__(self, *records: dict[str, Any], needles: int = 3, reveal: str = "end") -> None:
        self.records = records
        self.config = {
            "harness": {
                "needles": needles, "reveal": reveal, "profile": "strict", "profiles": {"strict": {"work_orders": 2}},
                "alphabet": "ab", "value_chars": 3,
            }
        }  # fmt: skip

    def episodes(self) -> list[dict[str, Any]]:
        return list(self.records)


def rows(*runs: OneRun) -> pd.DataFrame:
    return facts.measured(iter(runs))  # type: ignore[arg-type]


def test_the_state_is_the_prompt_when_the_question_came() -> None:
    # 10 + 20 + 4 of the view, 3 + 40 of the last page; "one" as a word of another line is not told from the value
    assert state_of(RECORD) == State(asked=True, tokens=77, values=2, has_value=True)
    plain = [m | {"content": m["content"].replace("one page", "a page")} for m in RECORD["messages"]]
    assert state_of(RECORD | {"messages": plain}).values == 1
    asked_for_the_first = RECORD["facts"] | {"asked": 0}
    assert not state_of(RECORD | {"messages": plain, "facts": asked_for_the_first}).has_value


def test_a_page_that_was_refused_is_not_the_last_one() -> None:
    refused = [turn | {"returncode": 1} if turn["action"] == "next B" else turn for turn in RECORD["turns"]]
    state = state_of(RECORD | {"turns": refused})
    assert not state.asked
    assert state.tokens == 77  # of the last view


def test_an_episode_without_a_call_held_nothing() -> None:
    assert state_of(RECORD | {"turns": [], "calls": []}) == State(asked=False, tokens=0, values=0, has_value=False)


def test_only_runs_whose_question_comes_last_and_no_errors() -> None:
    assert len(rows(OneRun(RECORD, RECORD | {"outcome": "error"}), OneRun(RECORD, reveal="start"))) == 1
    assert len(rows(OneRun(RECORD, needles=1, reveal="start"))) == 1


def test_the_bounds_by_hand() -> None:
    frame = rows(OneRun(RECORD, RECORD | {"turns": []}))
    bounds = facts._bounds(frame, 3, SETTINGS)
    # k = 3 bits, a guess is 1/8: 2/3 + 1/3 x 1/8 where the question came, 1/8 where it did not
    assert bounds["bound_values_pct"] == pytest.approx(100 * (17 / 24 + 3 / 24) / 2)
    assert (bounds["n_asked"], bounds["held_mean"]) == (1, 1)
    # 2/3 + 1/3, and nothing + 1/3
    assert bounds["bound_proposition_pct"] == pytest.approx(100 * (1 + 1 / 3) / 2)
    assert bounds["bound_tokens_pct"] == 100  # 77 tokens of 10 bits hold 9 bits many times
    error = (17 / 24 * 7 / 24 + 1 / 8 * 7 / 8) ** 0.5
    assert bounds["most_by_chance"] == pytest.approx(20 / 24 + 4 * error)


def test_a_right_answer_out_of_nowhere_is_named() -> None:
    gone = [m | {"content": m["content"].replace("RECORD=two", "")} for m in RECORD["messages"]]
    nowhere = RECORD | {"messages": gone}
    nothing = pd.DataFrame({"method": []})
    (line,) = facts.violations(nothing, rows(OneRun(RECORD, nowhere)))
    assert line.startswith("t/0 under sliding_window with 3 facts: right, though")
    assert facts.violations(nothing, rows(OneRun(RECORD, nowhere | {"outcome": "no_answer"}))) == []
    assert facts.violations(nothing, rows(OneRun(nowhere)).assign(method="arc")) == []


@pytest.mark.parametrize("method", ["sliding_window", "arc"])
def test_more_right_answers_than_the_prompt_explains(method: str) -> None:
    cell = {"method": method, "variant": "", "facts": 8, "n_success": 5, "n_run": 10, "bound_values_pct": 12.5}
    no_episodes = pd.DataFrame({"method": [], "correct": [], "value_held": []}).astype(
        {"correct": bool, "value_held": bool}
    )
    found = pd.DataFrame([cell | {"most_by_chance": most} for most in (5.0, 4.9)])
    lines = facts.violations(found, no_episodes)
    assert len(lines) == (method in WITHOUT_RECOVERY)


# ------------------------------------------------------------------------------------- real runs


def played(folder: Path, *words: str) -> Path:
    """A cell of the experiment in small: 12 pages."""
    small = ("harness.profiles.strict.work_orders=12", "harness.n_tasks=3", f"results_dir={folder}")
    cell = Cell.compose(compose("experiment=vista_facts", *small, *words))
    with RunFolder(cell.run_dir, cell.config, cell.config["digest_ignores"]) as run:
        tasks = cell.harness.tasks()
        run.write_manifest(cell.manifest({}, cell.engine, len(tasks)))
        asyncio.run(run_episodes(cell.setup(cell.engine), tasks, run, cell.timeout_s, len(tasks)))
    return cell.run_dir


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("facts")
    for method in ("sliding_window", "arc"):
        played(folder, f"method={method}", "harness.needles=12")
        played(folder, f"method={method}", "harness.needles=1", "harness.reveal=start")
    return folder


def command(runs: Path, tables: Path) -> int:
    return facts.main(["--runs", str(runs), "--tables", str(tables), "--settings", str(CHECK)])


def test_the_command_on_real_runs(runs: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert command(runs, tmp_path) == 0, capsys.readouterr().err
    cells = pd.read_csv(tmp_path / "facts_needle.csv").set_index(["method", "facts"])
    # forced before call 10: two or three recent pages then, and the last three
    assert 4 <= cells.loc[("sliding_window", 12), "held_mean"] <= 6
    assert cells.loc[("sliding_window", 1), "n_success"] == cells.loc[("sliding_window", 1), "held_mean"] == 0
    assert list(cells.loc["arc", "accuracy_pct"]) == [100, 100]
    assert cells.loc[("arc", 12), "bound_values_pct"] < 100
    assert (cells["bound_tokens_pct"] == 100).all()
    assert {path.name for path in tmp_path.glob("facts*")} == {
        f"{stem}.{suffix}" for stem in ("facts_needle", "facts_cells_needle") for suffix in ("csv", "md", "tex")
    } | {"facts_needle.svg", "facts_needle.png"}
    body = (tmp_path / "facts_needle.md").read_text()
    assert body.index("| sliding_window |") < body.index("| arc ")
    assert "points above" in (tmp_path / "facts_cells_needle.md").read_text()


def test_recovery_under_another_name_is_found(runs: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for path in runs.rglob("manifest.json"):
        manifest = json.loads(path.read_text())
        if manifest["method"] == "arc":
            copy = shutil.copytree(path.parent, tmp_path / "runs" / path.parent.relative_to(runs))
            (copy / "manifest.json").write_text(json.dumps(manifest | {"method": "sliding_window"}))
    assert len(list((tmp_path / "runs").rglob("manifest.json"))) == 2
    assert command(tmp_path / "runs", tmp_path) == 1
    assert "was not in the prompt when it was asked for" in capsys.readouterr().err


def test_two_settings_are_no_cell(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for forced in ("[]", "[5]"):
        played(tmp_path / "runs", "method=sliding_window", "harness.n_tasks=1", f"budget.force_at_calls={forced}")
    capsys.readouterr()
    assert command(tmp_path / "runs", tmp_path) == 2
    error = capsys.readouterr().err
    assert error.startswith("sliding_window with 8 facts: there are runs with force_at_calls=[")
    assert error.count("\n") == 1


def test_bad_input_is_one_line(tmp_path: Path, runs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert command(tmp_path, tmp_path) == 2
    (tmp_path / "s.yaml").write_text("vocabulary: 1\nstandard_errors: 4\n")
    assert facts.main(["--runs", str(runs), "--tables", str(tmp_path), "--settings", str(tmp_path / "s.yaml")]) == 2
    (tmp_path / "s.yaml").write_text("vocabulary: 100\n")
    assert facts.main(["--runs", str(runs), "--tables", str(tmp_path), "--settings", str(tmp_path / "s.yaml")]) == 2
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == 3
    assert lines[1] == "vocabulary=1: must be a number above 1"
    assert lines[2].endswith("must have exactly these keys: vocabulary, standard_errors")


def test_what_a_prompt_can_hold_bounds_the_answers_it_can_give() -> None:
    assert facts.recovery_bound(100, 10, 40) == 0.25 + 0.025
    assert facts.recovery_bound(0, 10, 40) == 0.025
    assert facts.recovery_bound(500, 10, 40) == 1
    with pytest.raises(ConfigError, match=r"bits_each=0: must be a number of at least 1"):
        facts.recovery_bound(100, 10, 0)
