"""The command line: what it runs, what it refuses, and what survives an interruption."""

from __future__ import annotations

import asyncio
import os
import random
import re
import signal
import subprocess
import sys
import time
from importlib.util import find_spec
from pathlib import Path

import orjson
import pytest
import yaml
from fakes import compose
from longbench import row, written

from arcbench.records import RunFolder, read_episodes
from arcbench.runner.cell import Cell, run_episodes

ROOT = Path(__file__).resolve().parent.parent
CONF = ROOT / "conf"
SUMMARY = ("harness", "method", "engine", "model", "seed", "planned", "run", "correct", "wrong", "no_answer", "error",
           "accuracy", "run_dir")  # fmt: skip
SMALL = ("harness.profile=paper", "harness.noise_lines_per_side=5")


def choices(group: str) -> list[str]:
    return sorted(path.stem for path in (CONF / group).glob("*.yaml"))


def start(*words: str, cwd: Path, results: str = "runs") -> subprocess.Popen[str]:
    where = [f"results_dir={cwd / results}"] if results else []
    command = [sys.executable, "-m", "arcbench", *words, *where]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    return subprocess.Popen(
        command, cwd=cwd, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )


def run(*words: str, cwd: Path, results: str = "runs") -> tuple[int, list[str], str]:
    process = start(*words, cwd=cwd, results=results)
    out, err = process.communicate(timeout=120)
    return process.returncode, out.splitlines(), err


def episodes_below(folder: Path) -> dict[str, dict]:
    return {r["task"]: r for file in folder.rglob("episodes.jsonl") for r in read_episodes(file)}


# -------------------------------------------------------------------------------- what it runs


def test_the_last_line_is_one_json_object_and_a_second_run_plays_only_what_is_owed(tmp_path):
    status, out, _ = run("method=arc", "seed=0", "harness.n_tasks=2", *SMALL, cwd=tmp_path)
    summary = orjson.loads(out[-1])
    assert status == 0
    assert tuple(summary) == SUMMARY
    assert (summary["seed"], summary["planned"], summary["run"], summary["correct"]) == (0, 2, 2, 2)
    folder = Path(summary["run_dir"])
    files = {".lock", ".done.json", "config.yaml", "manifest.json", "episodes.jsonl"}
    assert {path.name for path in folder.iterdir()} == files
    before = (folder / "episodes.jsonl").read_bytes()
    status, out, _ = run("method=arc", "seed=0", "harness.n_tasks=3", *SMALL, cwd=tmp_path)
    after = (folder / "episodes.jsonl").read_bytes()
    assert status == 0
    assert orjson.loads(out[-1])["run_dir"] == str(folder)
    assert after.startswith(before)
    assert len(after.splitlines()) == 3
    assert not list(tmp_path.glob("*.log"))


def test_a_sweep_keeps_going_after_a_cell_that_cannot_run_and_says_so_in_its_status(tmp_path):
    words = ("-m", "method=arc", "seed=1,-1,2", "harness.n_tasks=1", *SMALL)
    status, out, err = run(*words, cwd=tmp_path)
    assert [orjson.loads(line)["seed"] for line in out] == [1, 2]
    assert status == 2
    assert [line.split() for line in err.splitlines()[-4:]] == [
        ["seed=1", "done", "1", "1", "1", "0"],
        ["seed=-1", "failed", "-", "-", "-", "-"],
        ["seed=2", "done", "1", "1", "1", "0"],
        ["3", "cells:", "2", "done,", "0", "skipped,", "1", "failed,", "0", "owed"],
    ]
    assert "seed=-1: must be a whole number of at least 0" in err
    _, _, err = run("-m", "method=arc", "seed=1,2", "harness.n_tasks=1", *SMALL, cwd=tmp_path)
    assert err.splitlines()[-1] == "2 cells: 0 done, 2 skipped, 0 failed, 0 owed"


@pytest.mark.parametrize("doubled", ["seed=3,3", "episode_timeout_s=60,6e1", "recall=16k_8k,16k_8k"])
def test_h2_cells_that_resolve_to_the_same_config_run_once(tmp_path, doubled):
    words = ["-m", "method=sliding_window", "harness.n_tasks=1", doubled, *SMALL]
    status, out, _ = run(*words, cwd=tmp_path)
    assert status == 0
    assert len({orjson.loads(line)["run_dir"] for line in out}) == 1
    (file,) = tmp_path.rglob("episodes.jsonl")
    assert len(file.read_bytes().splitlines()) == 1


def test_h1_two_sweeps_started_together_share_no_folder(tmp_path):
    both = [start("-m", "method=arc", f"seed={seed}", "harness.n_tasks=2", *SMALL, cwd=tmp_path) for seed in (1, 2)]
    assert [process.wait(timeout=120) for process in both] == [0, 0]
    files = sorted(tmp_path.rglob("episodes.jsonl"))
    assert [len(file.read_bytes().splitlines()) for file in files] == [2, 2]


def test_h5_methods_get_the_same_tasks_in_any_order():
    def ids(*words: str) -> list[str]:
        return [task.id for task in Cell.compose(compose("harness.n_tasks=5", *words)).harness.tasks()]

    assert ids("method=arc", "seed=7") == ids("method=rag_memory", "seed=7")
    assert not set(ids("seed=7")) & set(ids("seed=8"))


# ------------------------------------------------------------------------- every committed config


@pytest.mark.parametrize("method", choices("method"))
@pytest.mark.parametrize("budget", choices("budget"))
def test_every_method_plays_at_every_budget(tmp_path, method, budget):
    recall = "recall=4k_2k" if budget == "tiny" else "recall=16k_8k"  # of which arc_paged has no room in a tiny window
    words = (f"method={method}", f"budget={budget}", recall, "harness.n_tasks=1", f"results_dir={tmp_path}")
    cell = Cell.compose(compose(*words))
    asyncio.run(played(cell))
    (record,) = episodes_below(tmp_path).values()
    assert record["outcome"] in ("correct", "no_answer"), record["error"]
    assert record["outcome"] == "correct" or budget != "ample"


async def played(cell: Cell) -> list[str]:
    with RunFolder(cell.run_dir, cell.config, cell.config["digest_ignores"]) as folder:
        await run_episodes(cell.setup(cell.engine), cell.harness.tasks(), folder, cell.timeout_s, 1)
        return [done.outcome for done in folder.finished.values()]


OTHERS = [f"recall={name}" for name in choices("recall")]
OTHERS += [f"experiment={name}" for name in choices("experiment")]
# without the benchmark's own prompt files, which are not ours: tests/test_longbench_single.py has stand-ins
OTHERS = [f"{word} harness.delivery=no_context" if word.endswith("official") else word for word in OTHERS]
OTHERS += [f"engine={name}" for name in choices("engine") if name not in ("vllm", "server", "replay")]
REAL = [name for name in choices("model") if name not in ("scripted", "served")]
OTHERS += [f"engine={engine} model={name} budget=tiny" for engine in ("vllm", "server") for name in REAL]
OTHERS += ["engine=server engine.api=chat engine.served_model=m model=served"]


@pytest.mark.parametrize("word", OTHERS)
def test_every_other_choice_composes(tmp_path, word):
    words = word.split()
    config = compose(*words)
    if config["model"]["path"] and not (ROOT / config["model"]["path"] / "config.json").exists():
        pytest.skip("the weights of smollm2-135m are not prepared: make smollm2")
    if config["harness"]["id"] == "longbench_v2_hard":
        words.append(f"harness.data_files={written(tmp_path, *map(row, range(12)))}")
    cell = Cell.compose(compose(*words))
    assert cell.config["engine"]["window_tokens"] == cell.budget.window_tokens


def test_the_recall_points_are_the_papers():
    points = {name: compose(f"recall={name}")["budget"] for name in choices("recall")}
    assert {name: (b["recall_budget_chars"], b["recall_max_chars"]) for name, b in points.items()} == {
        "4k_2k": (4000, 2000), "8k_4k": (8000, 4000), "16k_8k": (16000, 8000), "32k_16k": (32000, 16000),
    }  # fmt: skip


# --------------------------------------------------------------------------- what bad input gets

BAD = {
    "method=acr": "method=acr: must be one of arc, arc_paged, arc_select, full_context",
    "harness.n_task=5": "harness.n_task=5: there is no such key; the nearest are harness.n_tasks",
    "foo=1": "foo=1: there is no such key",
    "harness.n_tasks=-1": "harness.n_tasks=-1: must be a whole number of at least 1",
    "harness.n_tasks=1e3": "harness.n_tasks=1000.0: must be a whole number",
    "budget.completion_tokens=20000": "budget.completion_tokens=20000: must be smaller than budget.window_tokens=16384",
    "budget.force_at_calls=[10,5]": "budget.force_at_calls=[10, 5]: must be rising whole numbers",
    "seed=-1": "seed=-1: must be a whole number of at least 0",
    "harness.profile=easy": "harness.profile=easy: must be one of strict, lenient, paper",
    "engine=vllm": "engine=vllm model=scripted: not a language model",
    "model=qwen3-8b": "model=qwen3-8b: engine=scripted runs no model",
    "engine=vllm model=smollm2-135m budget=tiny model.path=/not/there": "model.path=/not/there: no model there",
    "experiment=a,b": "experiment=a,b: one experiment at a time",
    "+method.colour=red": "method=arc: Arc.__init__() got an unexpected keyword argument 'colour'",
    "method.preview_chars=0": "method.preview_chars=0: must be a whole number of at least 1",
    "seed=99999999999999999999": "seed=99999999999999999999: must be below 2**63",
    "budget.force_at_calls=null": "budget.force_at_calls=None: must be a list of call numbers",
    "budget.force_at_calls=[true]": "budget.force_at_calls=[True]: must be rising whole numbers",
    "results_dir=2026": "results_dir=2026: must be a folder; quote one that is a number",
    "run_dir=0": "run_dir=0: must be null or a folder",
    "method=null": "method=null: must be one of arc, arc_paged",
    "rules.corrections=null": "rules.corrections=None: must have a text for each fault",
    "rules.no_output=null": "rules.no_output=None: must be a text",
    "digest_ignores=null": "digest_ignores=None: must be a list of keys",
    "method.promise=null": "method.promise=None: must be a sentence for the agent",
    "model.thinking=maybe": "model.thinking=maybe: must be true or false",
    "+foo=1": "foo=1: there is no such key",
    "+budget.foo=1": "budget.foo=1: there is no such key",
    "method=arc_paged budget=tiny": "budget.recall_max_chars=8000: a chunk of 2000 tokens",
    "episode_timeout_s=0": "episode_timeout_s=0: must be a number above 0",
    "engine=replay engine.source=/not/there": "engine.source=/not/there: must be a run folder",
    "engine.concurrency=0": "engine.concurrency=0: must be a whole number of at least 1",
    "method=rag_memory retriever=cosine": "method.retriever=cosine: must be bm25 or dense",
}


@pytest.mark.parametrize("words", BAD)
def test_bad_input_gets_one_line_that_names_it_and_nothing_is_run(tmp_path, words):
    status, out, err = run(*words.split(), cwd=tmp_path, results="" if "results_dir" in words else "runs")
    assert status == 2
    assert out == []
    assert err.count("\n") == 1
    assert BAD[words] in err
    assert not list(tmp_path.rglob("episodes.jsonl"))


def test_d5_another_config_into_an_explicit_folder_is_refused_by_name(tmp_path):
    words = ("harness.n_tasks=1", "run_dir=mine", *SMALL)
    assert run(*words, cwd=tmp_path)[0] == 0
    status, _, err = run(*words, "budget.keep_recent_turns=2", cwd=tmp_path)
    assert status == 2
    assert "budget.keep_recent_turns=2: mine holds a run with budget.keep_recent_turns=3" in err
    assert run(*words, "harness.n_tasks=2", cwd=tmp_path)[0] == 0


def test_a_results_folder_that_cannot_be_written_is_one_line(tmp_path):
    (tmp_path / "runs").write_text("a file stands in the way")
    status, _, err = run("harness.n_tasks=1", cwd=tmp_path)
    assert status == 1
    assert "cannot be written" in err
    assert err.count("\n") == 1


# ----------------------------------------------------------------------------- what survives what

SLOW = ("engine=mock", "engine.delay_s=0.003", "engine.concurrency=3", "harness.n_tasks=12")


def without_timing(records: dict[str, dict]) -> dict[str, dict]:
    return {task: {**record, "calls": len(record["calls"])} for task, record in records.items()}


KILLS = int(os.environ.get("ARCBENCH_KILLS", "5"))
"""How often a running sweep is killed; ``.ci/run`` asks for fifty."""


def test_d3_a_sweep_killed_at_random_moments_ends_with_the_records_of_an_undisturbed_one(tmp_path):
    # enough to do that the last kill still meets a running sweep
    words = ("-m", *SLOW[:-1], f"harness.n_tasks={4 * KILLS}", "method=sliding_window,full_context")
    undisturbed, disturbed = tmp_path / "a", tmp_path / "b"
    undisturbed.mkdir()
    disturbed.mkdir()
    assert run(*words, cwd=undisturbed)[0] == 0
    moments = random.Random(1)
    for _ in range(KILLS):
        process = start(*words, cwd=disturbed)
        time.sleep(moments.uniform(0.9, 2.0))
        process.kill()
        process.communicate()
    assert run(*words, cwd=disturbed)[0] == 0
    files = sorted(disturbed.rglob("episodes.jsonl"))
    assert len(files) == 2
    for file in files:
        tasks = [record["task"] for record in read_episodes(file)]
        assert len(tasks) == len(set(tasks)) == 4 * KILLS
        alike = undisturbed / file.relative_to(disturbed)
        assert without_timing(by_task(file)) == without_timing(by_task(alike))


def by_task(file: Path) -> dict[str, dict]:
    return {record["task"]: record for record in read_episodes(file)}


@pytest.mark.parametrize("hash_seed", ["0", "1"])
def test_scripted_records_are_the_same_bytes_at_any_concurrency_in_any_order_under_any_hash_seed(tmp_path, hash_seed):
    made = []
    for name, words in {"a": ("engine.concurrency=1",), "b": ("engine.concurrency=7", "method=vista,arc")}.items():
        results = tmp_path / name
        more = ("-m", "method=arc,vista", "harness.n_tasks=3", *SMALL, *words)
        command = [sys.executable, "-m", "arcbench", *more, f"results_dir={results}"]
        environment = {**os.environ, "PYTHONPATH": str(ROOT), "PYTHONHASHSEED": hash_seed if name == "a" else "7"}
        assert subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True).returncode == 0
        files = sorted(results.rglob("episodes.jsonl"))
        made.append({file.relative_to(results): sorted(file.read_bytes().splitlines()) for file in files})
    assert len(made[0]) == 2
    assert made[0] == made[1]


@pytest.mark.parametrize("launcher", ["submitit_local", "ray"])
def test_cells_run_in_processes_of_their_own_and_what_they_did_is_not_done_again(tmp_path, launcher):
    package = {"submitit_local": "submitit", "ray": "ray"}[launcher]
    if find_spec("hydra_plugins") is None or find_spec(f"hydra_plugins.hydra_{package}_launcher") is None:
        pytest.skip(f"the launcher of {package} is not installed: the extras slurm and ray bring them")
    words = ("-m", f"hydra/launcher={launcher}", "method=arc", "seed=1,2", "harness.n_tasks=1", *SMALL)
    assert run(*words, cwd=tmp_path)[0] == 0
    assert len(episodes_below(tmp_path)) == 2
    status, _, err = run("-m", *words[2:], cwd=tmp_path)
    assert status == 0
    assert err.splitlines()[-1] == "2 cells: 0 done, 2 skipped, 0 failed, 0 owed"


def test_ctrl_c_says_how_to_go_on_and_keeps_what_is_done(tmp_path):
    words = [word for word in SLOW if not word.startswith("engine.delay")]
    process = start(*words, "engine.delay_s=0.1", cwd=tmp_path)
    deadline = time.monotonic() + 60
    while not episodes_below(tmp_path) and time.monotonic() < deadline:
        time.sleep(0.05)
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=60)
    assert process.returncode == 130
    assert "stopped; run the same command again to go on from here" in err
    assert "Traceback" not in err
    assert 0 < len(episodes_below(tmp_path)) < 12


def test_ctrl_c_says_which_cells_of_a_sweep_are_owed(tmp_path):
    words = [word for word in SLOW if not word.startswith("engine.delay")]
    process = start("-m", *words, "engine.delay_s=0.05", "method=sliding_window,full_context", "seed=1,2", cwd=tmp_path)
    deadline = time.monotonic() + 60
    while len(episodes_below(tmp_path)) < 14 and time.monotonic() < deadline:
        time.sleep(0.05)
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=60)
    assert process.returncode == 130
    assert "Traceback" not in err
    assert len(out.splitlines()) == 1
    assert "4 cells: 1 done, 0 skipped, 0 failed, 3 owed" in err


def test_ctrl_c_stops_an_engine_that_never_waits(tmp_path):
    process = start("method=sliding_window", "harness.n_tasks=3000", cwd=tmp_path)
    deadline = time.monotonic() + 60
    while not episodes_below(tmp_path) and time.monotonic() < deadline:
        time.sleep(0.05)
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=60)
    assert process.returncode == 130
    assert "stopped; run the same command again" in err
    assert 0 < len(episodes_below(tmp_path)) < 1500


def test_a_disk_that_fills_up_is_one_line_and_keeps_what_is_whole(tmp_path):
    limit = "import resource, signal, sys; signal.signal(signal.SIGXFSZ, signal.SIG_IGN); "
    limit += "resource.setrlimit(resource.RLIMIT_FSIZE, (300_000, 300_000)); "
    code = limit + "from arcbench.runner.session import main; sys.exit(main())"
    words = ("method=sliding_window", "harness.n_tasks=30", f"results_dir={tmp_path / 'runs'}")
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run([sys.executable, "-c", code, *words], env=environment, capture_output=True, text=True)
    assert done.returncode == 1
    assert "Traceback" not in done.stderr
    assert [line for line in done.stderr.splitlines() if "cannot be written" in line]
    assert len(episodes_below(tmp_path)) >= 2
    assert run(*words[:2], cwd=tmp_path)[0] == 0
    assert len(episodes_below(tmp_path)) == 30


def test_a_manifest_that_is_gone_comes_back(tmp_path):
    words = ("harness.n_tasks=1", *SMALL)
    run(*words, cwd=tmp_path)
    (path,) = tmp_path.rglob("manifest.json")
    for damage in (path.unlink, lambda: path.write_text("{")):
        damage()
        assert run(*words, cwd=tmp_path)[0] == 0
        assert orjson.loads(path.read_bytes())["planned"] == 1


def test_a_run_is_not_continued_on_other_data_of_the_same_name(tmp_path):
    words = ("harness=longbench_v2_hard", f"harness.data_files={tmp_path}/rows.jsonl", "method=full_context")
    written(tmp_path, row(0), row(1))
    assert run(*words, "harness.n_tasks=1", cwd=tmp_path)[0] == 0
    assert run(*words, "harness.order=shortest", cwd=tmp_path)[0] == 0  # the same cell, whichever rows come first
    (path,) = tmp_path.rglob("episodes.jsonl")
    before = path.read_bytes()
    assert before.count(b"\n") == 2
    written(tmp_path, row(0), row(1, question="Which boat is another?"))
    status, out, err = run(*words, cwd=tmp_path)
    assert (status, out) == (2, [])
    assert re.match(
        rf"arcbench: data\.sha256=[0-9a-f]{{64}}: {path.parent} holds a run on data with [0-9a-f]{{64}};", err
    )
    assert err.count("\n") == 1
    assert path.read_bytes() == before


def test_the_manifest_says_what_the_run_ran_on(tmp_path):
    run("harness.n_tasks=1", *SMALL, cwd=tmp_path)
    (path,) = tmp_path.rglob("manifest.json")
    manifest = orjson.loads(path.read_bytes())
    config = yaml.safe_load((path.parent / "config.yaml").read_text())
    assert manifest["digest"] == path.parent.name
    assert manifest["planned"] == 1
    assert manifest["chat"] == config["model"]["chat"]
    (session,) = manifest["sessions"]
    assert session["versions"]["python"] == ".".join(map(str, sys.version_info[:3]))
    assert len(session["engine"]["tokenizer_sha256"]) == 64
    assert set(session["git"]) == {"commit", "dirty"}
