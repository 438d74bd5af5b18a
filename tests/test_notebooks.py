"""The notebooks run on small records made on the spot, and the episode that they look at is the record's."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import longbench
import pytest

from analysis import frames
from analysis.episode import episode
from arcbench.records import read_episodes
from arcbench.transcript import messages_of
from arcbench.types import ConfigError

ROOT = Path(__file__).resolve().parent.parent
NOTEBOOKS = sorted((ROOT / "analysis/notebooks").glob("*.py"))


def command(*words: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    return subprocess.run([sys.executable, *words], env=environment, capture_output=True, text=True, timeout=240)


def printed(path: Path, runs: Path, out: Path) -> str:
    """What a notebook prints when it is run as a script."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "ARCBENCH_RUNS": str(runs), "ARCBENCH_OUT": str(out)}
    done = subprocess.run([sys.executable, str(path)], env=environment, capture_output=True, text=True, timeout=240)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def runs(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("runs")
    words = ["method=arc,sliding_window,vista", "recall=4k_2k,16k_8k", "harness.n_tasks=2", f"results_dir={folder}"]
    assert command("-m", "arcbench", "-m", *words).returncode == 0
    return folder


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_runs_from_its_first_cell_to_its_last(runs, tmp_path, path):
    expected = {
        "tour": ["exact p", "sliding_window alone 0, vista alone 2, both 0, of 2", "accuracy_needle_mechanism.svg"],
        "recall_budget": ["recall_needle_mechanism.svg", "92.5"],
        "why_episodes_fail": [
            "The fact left the view at compaction 1, before call 5",
            "cat secrets.txt",
            "the last reply",
        ],
        "vista_events": ["dashboard_tokens", "%"],
        "audit": ["inconsistent", "79/86/91"],
    }[path.stem]
    said = printed(path, runs, tmp_path)
    for text in expected:
        assert text in said, text


def test_the_readme_s_lines_lead_to_the_compaction_that_lost_the_fact(runs, tmp_path):
    (block,) = re.findall(r"^```python\n(.*?)^```", (ROOT / "README.md").read_text("utf-8"), re.S | re.M)
    assert block.count('"results/runs"') == 2
    code = block.replace('"results/runs"', repr(str(runs))).rstrip("\n")
    *before, last = code.split("\n")
    done = command("-c", "\n".join([*before, f"print({last})"]))
    assert done.returncode == 0, done.stderr
    assert "no_answer (gave_up), 18 calls, 3 compactions" in done.stdout
    assert "('0.result', " in done.stdout
    assert "Your task: read one file" in done.stdout


@pytest.fixture(scope="module")
def documents(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("documents")
    rows = longbench.written(folder, *(longbench.row(i) for i in range(2)))
    words = ["method=full_context,sliding_window", "harness=longbench_v2_hard", f"harness.data_files={rows}"]
    assert command("-m", "arcbench", "-m", *words, f"results_dir={folder / 'runs'}").returncode == 0
    return folder / "runs"


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_runs_over_long_documents_too(documents, tmp_path, path):
    expected = {
        "tour": "accuracy_longbench_v2_hard_mechanism.svg",
        "why_episodes_fail": "--- the last reply ---",
        "recall_budget": "the recall budget was not swept here",
        "vista_events": "no episode of vista here",
        "audit": "inconsistent",
    }
    assert expected[path.stem] in printed(path, documents, tmp_path)


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_opens_with_a_title_and_every_cell_has_a_marker(path):
    text = path.read_text("utf-8")
    assert text.startswith("# %% [markdown]\n# # ")
    assert text.count("\n# %%\n") >= 2


def test_an_episode_shows_any_prompt_as_the_model_saw_it(runs):
    read = frames.load(runs)
    row = read.episodes[read.episodes["method"] == "sliding_window"].iloc[0]
    one = episode(row["run_dir"], row["task"])
    (record,) = [r for r in read_episodes(Path(row["run_dir"]) / "episodes.jsonl") if r["task"] == row["task"]]
    for call in (1, 6, len(record["calls"])):
        shown = one.prompt(call, most_chars=None)
        assert [m.content in shown for m in messages_of(record, call)] == [True] * len(
            record["calls"][call - 1]["messages"]
        )
    assert "characters ...]" in one.prompt(3)
    assert str(one) == f"{row['task']}: no_answer (gave_up), {len(record['calls'])} calls, 3 compactions"
    assert list(one.compactions["before_call"]) == [5, 10, 15]
    gone = {place: fate for place, fate, _ in one.taken_out(0)}
    assert gone == dict.fromkeys(record["compactions"][0]["fates"]["dropped"], "dropped")
    assert one.turns["action"].iloc[0] == "cat secrets.txt"
    assert list(one.calls["prompt_tokens"]) == [call["prompt_tokens"] for call in record["calls"]]


def test_calls_are_numbered_as_the_compactions_and_the_ledger_number_them(tmp_path):
    done = command("-m", "arcbench", "method=llm_summary", "harness.n_tasks=1", f"results_dir={tmp_path}")
    assert done.returncode == 0
    row = frames.load(tmp_path).episodes.iloc[0]
    one = episode(row["run_dir"], row["task"])
    (first, *_) = one.compactions["before_call"]
    assert "Summary of them:" in one.prompt(first)
    assert "Summary of them:" not in one.prompt(first - 1)
    assert one.prompt(1, billed="method").startswith("[system")
    assert "You compress the working memory" in one.prompt(1, billed="method")
    assert str(one).endswith("18 calls, 3 compactions, 3 calls of the method's own")


def test_what_is_not_there_is_named(runs):
    read = frames.load(runs)
    row = read.episodes.iloc[0]
    with pytest.raises(ConfigError, match="task=needle/42/999: no record of it in"):
        episode(row["run_dir"], "needle/42/999")
    one = episode(row["run_dir"], row["task"])
    with pytest.raises(ConfigError, match="call=99: .* has .* calls of the agent, from 1"):
        one.prompt(99)
    with pytest.raises(ConfigError, match="compaction=99"):
        list(one.taken_out(99))
