"""The store in a SQLite file: what the store in memory does, and after a kill -9 and in two processes too."""

from __future__ import annotations

import hashlib
import os
import signal
import sqlite3
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from arcbench.arc import SqliteStore
from arcbench.arc.store import Store
from arcbench.text import admit
from arcbench.types import ConfigError

ROOT = Path(__file__).resolve().parents[1]
ODD = ["", "\x00", "a\x00b\x00", "🧭 e\u0301 \u202e", "§ab12cd34", "'; DROP TABLE records; --", admit("\ud83d x")[0],
       admit(b"\xff\x00\xfe")[0], "\r\n\u2028", "x" * 100_000]  # fmt: skip


def colliding(data: bytes) -> str:
    """Only 16 different starts of 8 characters, and two different next ones."""
    whole = hashlib.sha1(data).hexdigest()
    return (whole[0] * 8 + ("0000" if whole[1] < "8" else "ffff") + whole[2:] * 2)[:40]


def test_what_was_added_comes_back_after_reopening(tmp_path: Path) -> None:
    path = tmp_path / "a.sqlite"
    with SqliteStore(path) as store:
        added = [store.add(f"cat {i}", body, returncode=i - 1, step=i) for i, body in enumerate(ODD)]
        store.count_recall(added[1])
        again = store.add("cat 1", ODD[1], returncode=0, step=99)
    with SqliteStore(path) as store:
        assert len(store) == len(ODD)
        assert [store[record.id].body for record in added] == ODD
        assert again == store[added[1].id] != added[1]
        assert (again.steps, again.recalls, again.returncode) == ([1, 99], 1, 0)
        assert [record.id for record in store.latest(3)] == [record.id for record in added[-3:]]
        assert store.next_step() == 100
        assert store.get("00000000") is None
        with pytest.raises(KeyError):
            store["00000000"]


KEYS = st.tuples(st.sampled_from(["ls", "cat 🧭\x00"]), st.sampled_from([*ODD[:-1], *"abcdefgh"]))
OPERATIONS = st.lists(
    st.one_of(
        st.tuples(st.just("add"), KEYS, st.integers(0, 3)),
        st.tuples(st.sampled_from(["recall", "nearest", "reopen"]), st.none(), st.integers(0, 30)),
    ),
    max_size=40,
)


@settings(max_examples=60, deadline=None)
@given(OPERATIONS, st.booleans())
def test_any_operations_do_what_the_store_in_memory_does(
    operations: list[tuple[str, tuple[str, str] | None, int]], collide: bool
) -> None:
    digest: Callable[[bytes], str] = colliding if collide else lambda data: hashlib.sha1(data).hexdigest()
    with tempfile.TemporaryDirectory() as folder:
        file, memory = SqliteStore(Path(folder) / "a.sqlite", digest), Store(digest)
        ids: list[str] = []
        for name, key, number in operations:
            if name == "add" and key:
                records = [s.add(*key, returncode=number, step=number) for s in (file, memory)]
                assert records[0] == records[1]
                ids.append(records[0].id)
            elif name == "recall" and ids:
                for store in (file, memory):
                    store.count_recall(store[ids[number % len(ids)]])
            elif name == "nearest":
                assert file.nearest(f"{number:08x}", 3) == memory.nearest(f"{number:08x}", 3)
            elif name == "reopen":
                file.close()
                file = SqliteStore(Path(folder) / "a.sqlite", digest)
            assert len(file) == len(memory)
            assert [file.get(id) for id in [*ids, "0" * 8]] == [memory.get(id) for id in [*ids, "0" * 8]]
        file.close()


def test_nothing_in_the_file_can_be_changed_or_deleted(tmp_path: Path) -> None:
    with SqliteStore(tmp_path / "a.sqlite") as store:
        record = store.add("ls", "X", returncode=0, step=0)
        store.count_recall(record)
    with sqlite3.connect(tmp_path / "a.sqlite") as plain:
        for table, column in (("records", "body"), ("occurrences", "step"), ("recalls", "nth")):
            for change in (f"UPDATE {table} SET {column} = 7", f"DELETE FROM {table}"):
                with pytest.raises(sqlite3.IntegrityError, match=f"{table} is append-only"):
                    plain.execute(change)
    plain.close()


def test_an_observation_that_cannot_be_stored_leaves_nothing_half_done(tmp_path: Path) -> None:
    store = SqliteStore(tmp_path / "a.sqlite", hex_digest=lambda data: "0" * 40)
    for i in range(9):
        store.add("ls", str(i), returncode=0, step=i)
    with pytest.raises(LookupError, match="no id is left"):
        store.add("ls", "9", returncode=0, step=9)
    with pytest.raises(UnicodeEncodeError):
        store.add("ls", "\ud83d", returncode=0, step=9)
    with pytest.raises(OverflowError):
        store.add("ls", "8", returncode=0, step=2**70)
    assert len(store) == 9
    assert store.add("ls", "8", returncode=0, step=10).steps == [8, 10]
    store.close()


# ------------------------------------------------------------------------------------------ processes

WRITER = """
import sys
from arcbench.arc import SqliteStore
with SqliteStore(sys.argv[1]) as store:
    for i in range(int(sys.argv[2]), int(sys.argv[3])):
        record = store.add(f"cat {i}", f"{i} " * 500, returncode=0, step=i)
        store.count_recall(record)
        print(record.id, flush=True)
"""


def writer(path: Path, first: int, end: int) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", WRITER, str(path), str(first), str(end)],
        stdout=subprocess.PIPE,
        text=True,
        env=os.environ | {"PYTHONPATH": str(ROOT)},
    )


@pytest.mark.parametrize("heard", [1, 40, 700])
def test_whatever_add_returned_is_there_after_a_kill(tmp_path: Path, heard: int) -> None:
    path = tmp_path / "a.sqlite"
    with writer(path, 0, 10**9) as process:
        assert process.stdout
        ids = [process.stdout.readline().strip() for _ in range(heard)]
        process.send_signal(signal.SIGKILL)
        ids += process.stdout.read().split("\n")[:-1]  # what it had said when it was hit; the last may be cut
    assert process.returncode == -signal.SIGKILL
    with SqliteStore(path) as store:
        assert len(ids) <= len(store) <= len(ids) + 1
        for i, id in enumerate(ids):
            assert (store[id].signature, store[id].body, store[id].steps) == (f"cat {i}", f"{i} " * 500, [i])
        known = len(store)
        assert store.add("cat 0", "0 " * 500, returncode=0, step=known).id == ids[0]
        assert store.add("ls", "after", returncode=0, step=known).body == "after"
        assert len(store) == known + 1
    plain = sqlite3.connect(path)
    assert plain.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
    plain.close()


def test_two_processes_write_one_new_file_at_once(tmp_path: Path) -> None:
    path = tmp_path / "a.sqlite"
    writers = [writer(path, 0, 120), writer(path, 60, 180), writer(path, 0, 180)]
    said = [process.communicate(timeout=60)[0].split() for process in writers]
    assert [process.returncode for process in writers] == [0, 0, 0]
    with SqliteStore(path) as store:
        assert len(store) == 180
        assert said[0] == said[2][:120]
        assert said[1] == said[2][60:]
        steps = [store[id].steps for id in said[2]]
        recalls = [store[id].recalls for id in said[2]]
    assert steps == [[i] * (3 if 60 <= i < 120 else 2) for i in range(180)]
    assert recalls == [len(each) for each in steps]


def test_a_store_sees_what_another_one_adds_and_waits_its_time_for_it(tmp_path: Path) -> None:
    one, two = SqliteStore(tmp_path / "a.sqlite"), SqliteStore(tmp_path / "a.sqlite", wait_s=0.05)
    record = one.add("ls", "X", returncode=0, step=0)
    assert two[record.id] == record
    other = sqlite3.connect(tmp_path / "a.sqlite", isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    with pytest.raises(sqlite3.OperationalError, match="locked"):
        two.add("ls", "Y", returncode=0, step=1)
    assert two[record.id] == record  # reading does not wait
    other.execute("ROLLBACK")
    assert two.add("ls", "Y", returncode=0, step=1) == one.latest(1)[0]
    for each in (one, two, other):
        each.close()


# ---------------------------------------------------------------------------------------- bad files


def made(path: Path, *statements: str) -> Path:
    plain = sqlite3.connect(path)
    for statement in statements:
        plain.execute(statement)
    plain.close()
    return path


def test_a_file_that_is_no_store_is_named_in_one_line(tmp_path: Path) -> None:
    text = tmp_path / "notes.txt"
    text.write_text("not a database at all, but long enough to be read as one " * 20, "utf-8")
    newer = tmp_path / "newer.sqlite"
    SqliteStore(newer).close()
    cases = [
        (text, "must be a store that can be written, or a new file .file is not a database."),
        (tmp_path / "none" / "a.sqlite", "must be a store that can be written, or a new file .unable to open"),
        (tmp_path, "must be a store that can be written, or a new file .unable to open"),
        (made(tmp_path / "b.sqlite", "CREATE TABLE records (x)"), "must be an observation store or a new file"),
        (made(tmp_path / "c.sqlite", "PRAGMA application_id = 7"), "must be an observation store or a new file"),
        (made(newer, "PRAGMA user_version = 2"), "schema version 2: must be 1"),
    ]
    for path, named in cases:
        with pytest.raises(ConfigError, match=f"^store={path}: {named}") as caught:
            SqliteStore(path)
        assert "\n" not in str(caught.value)
    assert text.read_text("utf-8").startswith("not a database")


def test_an_empty_file_becomes_a_store(tmp_path: Path) -> None:
    (tmp_path / "a.sqlite").touch()
    with SqliteStore(tmp_path / "a.sqlite") as store:
        assert (len(store), store.next_step()) == (0, 0)
        assert not store.nearest("00000000", 3)
        assert not store.latest(3)
