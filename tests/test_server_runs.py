"""Whole runs over HTTP, in processes of their own: whatever the server does, the records are those of a quiet one."""

from __future__ import annotations

import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from test_runner import ROOT, SMALL, by_task, run, start

PASSING = ("429", "wait", "500", "502", "503", "504", "reset", "cut", "garbage")
KEY = "sk-nobody-may-read-this"
WORDS = (
    *("method=arc", "harness.n_tasks=3", *SMALL, "engine=server", "engine.api=chat", "model=served"),
    *("engine.served_model=m", "engine.key_env=SERVED_KEY", "engine.backoff_s=[0.05,0.5]", "engine.timeout_s=8"),
)


def free_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return int(free.getsockname()[1])


@contextmanager
def served(port: int, *next: str) -> Iterator[subprocess.Popen[bytes]]:
    command = [sys.executable, str(ROOT / "tests/served.py"), str(port), *next]
    with subprocess.Popen(command, env={"PYTHONPATH": str(ROOT)}, stderr=subprocess.DEVNULL) as server:
        try:
            deadline = time.monotonic() + 30
            while True:
                assert server.poll() is None, "the server ended"
                assert time.monotonic() < deadline, "the server did not start"
                try:
                    socket.create_connection(("127.0.0.1", port), timeout=1).close()
                    break
                except OSError:
                    time.sleep(0.05)
            yield server
        finally:
            server.kill()


def records(folder: Path) -> dict[str, Any]:
    """The episodes that count, but for the time they took."""
    (file,) = folder.rglob("episodes.jsonl")
    found = by_task(file)
    for record in found.values():
        for call in record["calls"]:
            del call["latency_s"]
    return found


@pytest.fixture(autouse=True)
def key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SERVED_KEY", KEY)


@pytest.fixture(scope="module")
def quiet(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where a run is that nothing disturbed."""
    folder, port = tmp_path_factory.mktemp("quiet"), free_port()
    with pytest.MonkeyPatch.context() as environment, served(port):
        environment.setenv("SERVED_KEY", KEY)
        assert run(*WORDS, f"engine.url=http://127.0.0.1:{port}/v1", cwd=folder)[0] == 0
    return folder


@pytest.fixture(scope="module")
def undisturbed(quiet: Path) -> dict[str, Any]:
    found = records(quiet)
    assert [record["outcome"] for record in found.values()] == ["correct"] * 3
    assert sum(len(record["calls"]) for record in found.values()) > len(PASSING)  # so that each of them is met
    return found


def test_what_may_go_better_does(tmp_path, undisturbed):
    port = free_port()
    with served(port, *(what for each in PASSING for what in (each, "well"))):
        status, _, err = run(*WORDS, f"engine.url=http://127.0.0.1:{port}/v1", cwd=tmp_path)
    assert status == 0, err
    assert records(tmp_path) == undisturbed


@pytest.mark.parametrize("what", ["400", "401", "empty", "filter", "hang"])
def test_what_will_not_is_owed_again(tmp_path, undisturbed, what):
    port = free_port()
    words = (*WORDS, f"engine.url=http://127.0.0.1:{port}/v1", "engine.timeout_s=2")
    with served(port, *["well"] * 5, what):
        status, out, err = run(*words, cwd=tmp_path)
        assert status == 1
        assert '"error":1' in out[-1]
        assert "1 episodes ended in an error; run the same command again to redo them" in err
        assert run(*words, cwd=tmp_path)[0] == 0
    assert records(tmp_path) == undisturbed


def test_a_server_that_dies_and_comes_back_is_waited_for(tmp_path, undisturbed):
    port = free_port()
    with served(port, *["well"] * 7, "die") as first:
        process = start(*WORDS, f"engine.url=http://127.0.0.1:{port}/v1", "engine.retries=50", cwd=tmp_path)
        assert first.wait(timeout=30) == 1
        with served(port):
            _, err = process.communicate(timeout=60)
    assert process.returncode == 0, err
    assert records(tmp_path) == undisturbed


def test_a_server_that_stays_away_leaves_its_episodes_owed(tmp_path, undisturbed):
    port = free_port()
    words = (*WORDS, f"engine.url=http://127.0.0.1:{port}/v1", "engine.retries=2", "engine.concurrency=1")
    with served(port, *["well"] * 7, "die"):
        status, _, err = run(*words, cwd=tmp_path)
    assert status == 1
    assert "ClientConnectorError" in err
    with served(port):
        assert run(*words, cwd=tmp_path)[0] == 0
    assert records(tmp_path) == undisturbed


def test_no_server_is_one_line_and_no_episode_is_played(tmp_path):
    status, out, err = run(*WORDS, f"engine.url=http://127.0.0.1:{free_port()}/v1", cwd=tmp_path)
    assert (status, out, err.count("\n")) == (2, [], 1)
    assert "engine.url=http://127.0.0.1:" in err
    assert not [path for path in tmp_path.rglob("episodes.jsonl") if path.read_bytes()]


def test_the_key_stands_in_no_file_and_in_no_line(tmp_path):
    port = free_port()
    with served(port, "401", "503"):  # their texts repeat the key that was sent
        _, out, err = run(*WORDS, f"engine.url=http://127.0.0.1:{port}/v1", "engine.retries=0", cwd=tmp_path)
    assert "<key>" in err
    assert KEY not in "\n".join((*out, err))
    written = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert {"config.yaml", "manifest.json", "episodes.jsonl"} <= {path.name for path in written}
    assert [path for path in written if KEY.encode() in path.read_bytes()] == []


def test_what_a_server_said_can_be_replayed_though_it_counts_otherwise(tmp_path, quiet, undisturbed):
    (source,) = (file.parent for file in quiet.rglob("episodes.jsonl"))
    words = ("method=arc", "harness.n_tasks=3", *SMALL, "engine=replay", "model=served", f"engine.source={source}")
    status, _, err = run(*words, cwd=tmp_path)
    assert status == 0, err
    assert records(tmp_path) == undisturbed
