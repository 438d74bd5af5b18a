"""Run folders: which configs are one run, one line per episode whatever is in it, and resuming after any end."""

from __future__ import annotations

import asyncio
import copy
import hashlib
import os
import random
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import orjson
import pytest
import yaml
from bench import budget
from fakes import FakeEngine, FakeHarness, Keeps, conf, played, run, setup, task
from hypothesis import given, settings
from hypothesis import strategies as st

from arcbench import progress
from arcbench.records import (
    CONFIG,
    EPISODES,
    NEEDED,
    RUN_COLUMNS,
    RunError,
    RunFolder,
    digest,
    flatten,
    identity,
    load,
    read_episodes,
    repair,
)
from arcbench.runner.cell import run_episodes
from arcbench.types import ConfigError, EngineError, Request

ROOT = Path(__file__).parents[1]
IGNORED = conf("config")["digest_ignores"]


def outcomes(folder: RunFolder) -> dict[str, str]:
    return {task: done.outcome for task, done in folder.finished.items()}


def config() -> dict[str, Any]:
    """A config such as the runner resolves, from the files of conf/."""
    return {
        **{key: conf("config")[key] for key in ("seed", "results_dir", "run_dir", "episode_timeout_s", "rules")},
        "digest_ignores": IGNORED,
        "budget": {**conf("budget/paper_8b"), **conf("recall/8k_4k")["budget"]},
        "harness": {"id": "needle", "n_tasks": 200, "profile": "strict", "turn_limit": 26},
        "engine": {"id": "vllm", "concurrency": 8, "timeout_s": 600, "flags": {}},
        "model": {"id": "qwen3-8b", "prepare": "x", "facts": {"layers": 36}, "thinking": True},
        "method": {"id": "arc", "preview_chars": 120},
    }


def changed(key: str, value: Any) -> dict[str, Any]:
    """The config with one dotted key changed."""
    new: dict[str, Any] = copy.deepcopy(config())
    *path, last = key.split(".")
    inner = new
    for part in path:
        inner = inner[part]
    assert last in inner
    inner[last] = value
    return new


BARE = {key: [] for key in sorted(NEEDED)}
"""What every record has, and nothing in it."""


def record(name: str, outcome: str = "correct", **more: Any) -> dict[str, Any]:
    return BARE | {"task": name, "outcome": outcome} | more


def tasks_in(path: Path) -> list[str]:
    return [each["task"] for each in read_episodes(path / EPISODES)]


# --------------------------------------------------------------------------------------- identity


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("harness.n_tasks", 3),
        ("engine.concurrency", 1),
        ("engine.timeout_s", 1),
        ("results_dir", "elsewhere"),
        ("run_dir", "elsewhere"),
        ("episode_timeout_s", 1),
        ("digest_ignores", []),
        ("model.facts.layers", 1),
        ("model.prepare", None),
    ],
)
def test_what_cannot_change_an_outcome_does_not_change_the_digest(key: str, value: Any) -> None:
    assert digest(changed(key, value), IGNORED) == digest(config(), IGNORED)


BUDGET = sorted(flatten({"budget": config()["budget"]}))


@pytest.mark.parametrize("key", [*BUDGET, "seed", "rules.protocol", "rules.malformed_limit", "method.preview_chars",
                                 "harness.turn_limit", "model.thinking"])  # fmt: skip
def test_whatever_else_changes_is_another_run(key: str) -> None:
    old = flatten(config())[key]
    new = [1] if isinstance(old, list) else f"{old}x" if isinstance(old, str) else old / 2
    assert digest(changed(key, new), IGNORED) != digest(config(), IGNORED)


def test_the_digest_does_not_depend_on_order_and_is_the_same_everywhere() -> None:
    backwards = dict(reversed(config().items())) | {"method": dict(reversed(config()["method"].items()))}
    assert digest(backwards, IGNORED) == digest(config(), IGNORED)
    plain = hashlib.sha256(b'{"a.b":1,"a.c":[1,2.5,null]}').hexdigest()[:12]
    assert digest({"a": {"b": 1, "c": [1, 2.5, None]}, "x": "é"}, ["x"]) == plain
    assert identity({"a": {"b": 1}, "ab": 2, "a.c": 3}, ["a."]) == {"ab": 2}


# ---------------------------------------------------------------------------------------- one line


@pytest.mark.parametrize(
    "text",
    ["\u2028", "\u2029", "\x85", "\x0b", "\x1c", "a\nb\r\nc", "\x00", "🎉", "ok\x00\\xff\\xfe\\xc3(\n"],
    ids=["D2-2028", "D2-2029", "D2-0085", "D2-000B", "D2-001C", "newlines", "nul", "emoji", "C7-escaped"],
)
def test_one_line_per_record_read_back_identical(tmp_path: Path, text: str) -> None:
    """Field cases D2 and C7."""
    records = [record(f"t{i}", text=f"{text}{i}{text}") for i in range(2)]
    with RunFolder(tmp_path, config(), IGNORED) as folder:
        for each in records:
            folder.append(each)
    assert (tmp_path / EPISODES).read_bytes().count(b"\n") == 2
    assert list(read_episodes(tmp_path / EPISODES)) == records


def test_a_played_episode_is_read_back_identical(tmp_path: Path) -> None:
    odd = FakeHarness(answer=lambda command, mounts: "\u2028\x85 a\ud83d \x1c\n\x00")
    whole = played(task(), setup(FakeEngine([run("look"), run("submit 42")], window=999), Keeps, budget(999, 50), odd))
    with RunFolder(tmp_path, config(), IGNORED) as folder:
        folder.append(whole)
    assert list(read_episodes(tmp_path / EPISODES)) == [whole]


def test_what_is_done_is_not_read_again_and_is_when_the_records_changed(tmp_path: Path) -> None:
    with RunFolder(tmp_path, config(), IGNORED) as folder:
        folder.append(record("a", "correct"))
    kept = tmp_path / progress.FILE
    # what is kept is believed as long as the records are as they were
    kept.write_bytes(kept.read_bytes().replace(b"correct", b"wrong"))
    with RunFolder(tmp_path, config(), IGNORED) as folder:
        assert outcomes(folder) == {"a": "wrong"}
    with (tmp_path / EPISODES).open("ab") as file:
        file.write(orjson.dumps(record("b", "no_answer")) + b"\n")
    with RunFolder(tmp_path, config(), IGNORED) as folder:
        assert outcomes(folder) == {"a": "correct", "b": "no_answer"}
    for damage in (b"", b"{", b"[]", b'{"size": 1}', b'{"size": 1, "mtime_ns": 1, "finished": []}'):
        kept.write_bytes(damage)
        with RunFolder(tmp_path, config(), IGNORED) as folder:
            assert outcomes(folder) == {"a": "correct", "b": "no_answer"}


def test_finished_tasks_are_known_and_errors_are_owed_again(tmp_path: Path) -> None:
    with RunFolder(tmp_path, config(), IGNORED) as folder:
        for name, outcome in (("a", "correct"), ("b", "error"), ("c", "no_answer"), ("d", "wrong")):
            folder.append(record(name, outcome))
        assert outcomes(folder) == {"a": "correct", "c": "no_answer", "d": "wrong"}
    with RunFolder(tmp_path, config(), IGNORED) as folder:
        assert outcomes(folder) == {"a": "correct", "c": "no_answer", "d": "wrong"}
        folder.append(record("b", "wrong"))
    with RunFolder(tmp_path, config(), IGNORED) as folder:
        assert outcomes(folder)["b"] == "wrong"


# --------------------------------------------------------------------------------------- torn ends

WHOLE = orjson.dumps(record("t1", "wrong", text="é")) + b"\n"
OTHER = orjson.dumps(record("t2", "wrong", text="party \N{PARTY POPPER}"))


@pytest.mark.parametrize(
    ("tail", "kept"),
    [
        (b"", ["t1"]),
        (b'{"id":2,"x":"tor', ["t1"]),
        (OTHER[: OTHER.index(b"\x89")], ["t1"]),
        (OTHER, ["t1", "t2"]),
        (OTHER[:-1], ["t1"]),
        (b"\x00\x00\x00", ["t1"]),
        (b" " * 3_000_000, ["t1"]),
    ],
    ids=["D1-none", "D1-torn", "D1-half-character", "D1-no-newline", "last-brace", "nuls", "longer-than-a-block"],
)
@pytest.mark.parametrize("first", [WHOLE, b""], ids=["after-a-record", "alone"])
def test_a_torn_end_is_repaired_and_nothing_is_glued_to_it(
    tmp_path: Path, first: bytes, tail: bytes, kept: list[str]
) -> None:
    """Field case D1."""
    with RunFolder(tmp_path, config(), IGNORED):
        pass
    kept = kept if first else kept[1:]
    (tmp_path / EPISODES).write_bytes(first + tail)
    assert tasks_in(tmp_path) == kept
    with RunFolder(tmp_path, config(), IGNORED) as folder:
        assert list(folder.finished) == kept
        folder.append(record("new"))
    assert tasks_in(tmp_path) == [*kept, "new"]
    assert (tmp_path / EPISODES).read_bytes().startswith(first)


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_cut_anywhere_every_earlier_record_stays(tmp_path_factory: Any, data: Any) -> None:
    file = tmp_path_factory.mktemp("cut") / EPISODES
    records = [record(f"t{i}", text=data.draw(st.text(max_size=8))) for i in range(data.draw(st.integers(1, 4)))]
    lines = [orjson.dumps(each) + b"\n" for each in records]
    cut = data.draw(st.integers(0, sum(map(len, lines))))
    file.write_bytes(b"".join(lines)[:cut])
    repair(file)
    ends = [sum(map(len, lines[: i + 1])) for i in range(len(lines))]
    whole = [each for each, end in zip(records, ends, strict=True) if end - 1 <= cut]
    assert list(read_episodes(file)) == whole
    assert file.read_bytes() == b"".join(lines[: len(whole)])


def test_a_broken_line_in_the_middle_is_passed_over(tmp_path: Path) -> None:
    file = tmp_path / EPISODES
    file.write_bytes(WHOLE + b'{"x": \n[1, 2]\n{"other": 1}\n' + OTHER + b"\n")
    assert [each["task"] for each in read_episodes(file)] == ["t1", "t2"]


# ------------------------------------------------------------------------------ other configs, processes


def test_d5_resume_with_another_value_is_refused_by_name(tmp_path: Path) -> None:
    """Field case D5."""
    with RunFolder(tmp_path, config(), IGNORED) as folder:
        folder.append(record("a"))
    with pytest.raises(
        ConfigError, match=r"^budget.keep_recent_turns=4: .* holds a run with budget.keep_recent_turns=3; "
    ):
        RunFolder(tmp_path, changed("budget.keep_recent_turns", 4), IGNORED).__enter__()
    with RunFolder(tmp_path, changed("harness.n_tasks", 5), IGNORED) as folder:
        assert outcomes(folder) == {"a": "correct"}
    assert yaml.safe_load((tmp_path / CONFIG).read_text("utf-8")) == config()


def test_a_refused_resume_lets_go_of_the_folder(tmp_path: Path) -> None:
    with RunFolder(tmp_path, config(), IGNORED):
        pass
    with pytest.raises(ConfigError):
        RunFolder(tmp_path, changed("seed", 1), IGNORED).__enter__()
    with RunFolder(tmp_path, config(), IGNORED):
        pass


def child(script: str, path: Path, *arguments: str) -> subprocess.Popen[bytes]:
    """A second process that has the config of this test and runs ``script``."""
    head = (
        "import sys, time, yaml, pathlib\n"
        "from arcbench.records import *\n"
        "path = pathlib.Path(sys.argv[1])\n"
        "config = yaml.safe_load(sys.argv[2])\n"
        "folder = RunFolder(path, config, config['digest_ignores'])\n"
        "BARE = {key: [] for key in sorted(NEEDED)}\n"
    )
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-c", head + script, str(path), yaml.safe_dump(config()), *arguments]
    return subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE)


def test_a_second_process_is_refused_until_the_first_ends(tmp_path: Path) -> None:
    with RunFolder(tmp_path, config(), IGNORED):
        out, err = child(
            "try:\n    folder.__enter__()\nexcept RunError as fault:\n    print(fault)", tmp_path
        ).communicate()
    assert out.decode().strip() == f"{tmp_path}: another process is running this cell; wait for it or stop it", err
    out, err = child("with folder:\n    print('in')", tmp_path).communicate()
    assert (out, err) == (b"in\n", b"")


def test_a_process_that_was_killed_holds_nothing(tmp_path: Path) -> None:
    holder = child("folder.__enter__()\nprint('in', flush=True)\ntime.sleep(60)", tmp_path)
    assert holder.stdout is not None
    assert holder.stdout.readline() == b"in\n"
    with pytest.raises(RunError, match="another process"):
        RunFolder(tmp_path, config(), IGNORED).__enter__()
    holder.kill()
    holder.communicate()
    with RunFolder(tmp_path, config(), IGNORED):
        pass


APPENDS = """
with folder:
    for i in range(60):
        if f't{i}' not in folder.finished:
            folder.append(BARE | {'task': f't{i}', 'outcome': 'wrong', 'text': chr(0x1F389) * 30000})
            print(i, flush=True)
            time.sleep(0.002)
"""


def test_d3_killed_at_random_moments_the_final_set_is_whole(tmp_path: Path) -> None:
    """Field case D3, in small: ten kills, then an uninterrupted end."""
    chance = random.Random(3)
    for _ in range(10):
        writer = child(APPENDS, tmp_path)
        assert writer.stdout is not None
        writer.stdout.readline()
        time.sleep(chance.random() * 0.02)
        writer.kill()
        writer.communicate()
    seen = len(tasks_in(tmp_path))
    assert 10 <= seen <= 60
    out, err = child(APPENDS, tmp_path).communicate()
    assert (len(out.split()), err) == (60 - seen, b"")
    assert tasks_in(tmp_path) == [f"t{i}" for i in range(60)]


def test_a_folder_that_cannot_be_written_says_what_to_do(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    with pytest.raises(RunError, match=r"file/run: cannot be written \(.*\); choose another folder"):
        RunFolder(tmp_path / "file" / "run", config(), IGNORED).__enter__()


def test_a_full_disk_takes_the_line_back(tmp_path: Path) -> None:
    script = (
        "import resource, signal\n"
        "signal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n"
        "with folder:\n"
        "    folder.append(BARE | {'task': 'a', 'outcome': 'wrong'})\n"
        "    resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))\n"
        "    try:\n"
        "        folder.append(BARE | {'task': 'b', 'outcome': 'wrong', 'text': 'x' * 2000})\n"
        "    except RunError as fault:\n"
        "        print(fault)\n"
    )
    out, err = child(script, tmp_path).communicate()
    assert b"cannot be written" in out, err
    assert (tmp_path / EPISODES).read_bytes() == orjson.dumps(record("a", "wrong")) + b"\n"


# ------------------------------------------------------------------------- episodes that do not end well


def test_d4_one_raises_one_is_cancelled_one_never_returns(tmp_path: Path) -> None:
    """Field case D4."""

    class Troubled(FakeEngine):
        async def complete(self, request: Request) -> Any:
            if request.episode == "fake/1":
                raise EngineError("the server went away")
            if request.episode == "fake/2":
                raise asyncio.CancelledError
            if request.episode == "fake/3":
                await asyncio.Event().wait()
            return await super().complete(request)

    cell = setup(Troubled([run("submit 42")], window=999, concurrency=2), Keeps, budget(999, 50))
    tasks = [task(i) for i in range(6)]
    with RunFolder(tmp_path, config(), IGNORED) as folder:
        errors = asyncio.run(run_episodes(cell, tasks, folder, 0.5, 6))
        assert outcomes(folder) == {f"fake/{i}": "correct" for i in (0, 4, 5)}
    told = {each["task"]: each["error"] for each in read_episodes(tmp_path / EPISODES)}
    assert told == {
        **{f"fake/{i}": None for i in (0, 4, 5)},
        "fake/1": "EngineError: the server went away",
        "fake/2": "the episode was cancelled",
        "fake/3": "the episode took longer than episode_timeout_s=0.5",
    }
    assert errors.total() == 3


# ------------------------------------------------------------------------------------------ reading


def manifest() -> Mapping[str, Any]:
    return dict.fromkeys(RUN_COLUMNS[1:]) | {"harness": "fake", "method": "keeps", "planned": 3, "seed": 7}


@pytest.mark.parametrize("name", ["manifest.json", "config.yaml"])
@pytest.mark.parametrize("damage", ["", "{", "[]", "{}", "- a: ["])
def test_a_damaged_file_is_named(tmp_path: Path, name: str, damage: str) -> None:
    with RunFolder(tmp_path / "a", config(), IGNORED) as folder:
        folder.write_manifest(manifest())
        folder.append(record("t1"))
    (tmp_path / "a" / name).write_text(damage)
    if name == "config.yaml" and damage == "{}":
        assert load(tmp_path).runs["config"][0] == {}
        return
    with pytest.raises(RunError, match=rf"a/{name}: damaged; remove it"):
        load(tmp_path)


@pytest.mark.parametrize("line", ['{"task": ["a"], "outcome": "correct"}', '{"task": "a", "outcome": "correct"}', "[]"])
def test_a_record_that_is_not_whole_is_owed_again(tmp_path: Path, line: str) -> None:
    with RunFolder(tmp_path, config(), IGNORED) as folder:
        folder.append(record("t1"))
    with (tmp_path / EPISODES).open("a") as file:
        file.write(line + "\n")
    with RunFolder(tmp_path, config(), IGNORED) as folder:
        assert outcomes(folder) == {"t1": "correct"}


def test_frames_hold_the_latest_record_of_each_task(tmp_path: Path) -> None:
    engine = FakeEngine([run("look"), run("submit 42")], window=999)
    cell = setup(engine, Keeps, budget(999, 50, force_at_calls=(2,)))
    with RunFolder(tmp_path / "a", config(), IGNORED) as folder:
        folder.write_manifest(manifest())
        folder.append(played(task(0), setup(FakeEngine([EngineError("gone")], window=999), Keeps, budget(999, 50))))
        folder.append(played(task(0), cell))
        folder.append(played(task(1), cell))
        assert folder.manifest() == manifest()
    with RunFolder(tmp_path / "b", config(), IGNORED):
        pass  # stopped before it began
    frames = load(tmp_path)
    assert list(frames.runs["method"]) == ["keeps"]
    assert frames.runs["config"][0]["budget.window_tokens"] == 16384
    assert list(frames.episodes["task"]) == ["fake/0", "fake/1"]
    assert list(frames.episodes["outcome"]) == ["correct", "correct"]
    assert list(frames.episodes["agent_calls"]) == [2, 2]
    assert list(frames.episodes["prompt_tokens"]) == [10 + 18, 10 + 18]
    assert list(frames.calls["number"]) == [1, 2, 1, 2]
    assert list(frames.compactions["outcome"]) == ["nothing", "nothing"]


def test_reading_nothing_or_half_a_run_is_refused(tmp_path: Path) -> None:
    with pytest.raises(RunError, match="no runs here"):
        load(tmp_path)
    with RunFolder(tmp_path / "a", config(), IGNORED) as folder:
        folder.append(record("a"))
    with pytest.raises(RunError, match=r"a: no manifest\.json; run the same command again"):
        load(tmp_path)
    with RunFolder(tmp_path / "a", config(), IGNORED) as folder:
        folder.write_manifest(manifest())
    (tmp_path / "a" / CONFIG).unlink()
    with pytest.raises(RunError, match=r"a: no config\.yaml; bring it back, or move the folder away"):
        load(tmp_path)


def test_a_task_that_was_finished_twice_is_refused(tmp_path: Path) -> None:
    """Two files put together, say; a task that stands twice because it was in error is none such."""
    with RunFolder(tmp_path / "a", config(), IGNORED) as folder:
        folder.write_manifest(manifest())
        folder.append(record("t1", "error"))
        folder.append(record("t1", "wrong"))
    assert list(load(tmp_path).episodes["outcome"]) == ["wrong"]
    for second in ("wrong", "error"):
        whole = (tmp_path / "a" / EPISODES).read_bytes()
        with (tmp_path / "a" / EPISODES).open("ab") as file:
            file.write(orjson.dumps(record("t1", second)) + b"\n")
        with pytest.raises(RunError, match=r"a: task t1 stands twice in episodes\.jsonl, .*; take one of the "):
            load(tmp_path)
        (tmp_path / "a" / EPISODES).write_bytes(whole)
