"""ARC's observation store in one SQLite file: append-only, so that an agent can restart and still recall."""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from rapidfuzz import process
from rapidfuzz.distance import Levenshtein

from arcbench.arc.store import Record, Store, sha1_hex
from arcbench.types import ConfigError

APPLICATION = 0x41524353  # "ARCS": tells a store from any other SQLite file
VERSION = 1

# Texts are stored as UTF-8 blobs, which hold any character (some of SQLite's functions end a text at NUL). The
# ids stand in an index of their own, so that looking them through reads no body.
_SCHEMA = (
    "CREATE TABLE records (number INTEGER PRIMARY KEY, id TEXT NOT NULL, signature BLOB NOT NULL, "
    "returncode INTEGER NOT NULL, body BLOB NOT NULL)",
    "CREATE UNIQUE INDEX record_ids ON records (id)",
    "CREATE TABLE occurrences (record INTEGER, nth INTEGER, step INTEGER NOT NULL, PRIMARY KEY (record, nth)) "
    "WITHOUT ROWID",
    "CREATE TABLE recalls (record INTEGER, nth INTEGER, PRIMARY KEY (record, nth)) WITHOUT ROWID",
    *(
        f"CREATE TRIGGER {table}_{event} BEFORE {event} ON {table} "
        f"BEGIN SELECT RAISE(ABORT, '{table} is append-only'); END"
        for table in ("records", "occurrences", "recalls")
        for event in ("UPDATE", "DELETE")
    ),
    f"PRAGMA application_id = {APPLICATION}",
    f"PRAGMA user_version = {VERSION}",
)
_FOUND = "SELECT number, id, signature, returncode, body FROM records"


class SqliteStore(Store):
    """A :class:`Store` whose records, occurrences and recall counts are rows of one SQLite file.

    Whatever ``add`` has returned is in the file after a kill -9 of the process (write-ahead log, no fsync for
    each insert: a power failure may take the last few inserts, and damages nothing). Several processes
    may use one file on a local disk at once: a write waits at most ``wait_s`` seconds for another one's,
    and then raises ``sqlite3.OperationalError``. A store belongs to the thread that opened it.

    A record that is asked for is read from the file, each time a new object; that takes a time that does not grow
    with the number of records, but with the body and with how often the same action gave this same observation.

    Raises :class:`ConfigError` for a file that cannot be opened or is not a store of this version.
    """

    def __init__(self, path: str | Path, hex_digest: Callable[[bytes], str] = sha1_hex, wait_s: float = 30.0) -> None:
        super().__init__(hex_digest)
        self.path = Path(path)
        try:
            # autocommit: transactions are opened below, by name
            self._db = sqlite3.connect(self.path, timeout=wait_s, isolation_level=None)
            try:
                self._open(wait_s)
            except BaseException:
                self._db.close()
                raise
        except sqlite3.Error as fault:
            raise ConfigError(
                f"store={self.path}: must be a store that can be written, or a new file ({fault})"
            ) from fault

    def _open(self, wait_s: float) -> None:
        if not self._pragma("user_version"):
            with self._writing():  # of several processes that open a new file the first one makes it
                if not self._value("SELECT count(*) FROM sqlite_master") and not self._pragma("application_id"):
                    for statement in _SCHEMA:
                        self._db.execute(statement)
        made, version = self._pragma("application_id"), self._pragma("user_version")
        if made != APPLICATION:
            raise ConfigError(
                f"store={self.path}: must be an observation store or a new file; this is another program's"
            )
        if version != VERSION:
            raise ConfigError(f"store={self.path}: schema version {version}: must be {VERSION}")
        self._keep_a_log(wait_s)
        self._db.execute("PRAGMA synchronous = NORMAL")
        # a checkpoint is the one part of an insert that waits for the disk: every 16 MB instead of every 4
        self._db.execute("PRAGMA wal_autocheckpoint = 4000")

    def _keep_a_log(self, wait_s: float) -> None:
        """Turn the write-ahead log on. While another process does the same, SQLite refuses without waiting."""
        end = time.monotonic() + wait_s
        while True:
            try:
                self._db.execute("PRAGMA journal_mode = WAL")
                return
            except sqlite3.OperationalError:
                if time.monotonic() >= end:
                    raise
                time.sleep(0.01)

    def close(self) -> None:
        """Close the file. What was added is in it with or without this."""
        self._db.close()

    def __enter__(self) -> SqliteStore:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __len__(self) -> int:
        return self._value("SELECT coalesce(max(number), 0) FROM records")  # rows are numbered from 1 and none leaves

    def add(self, signature: str, body: str, *, returncode: int, step: int) -> Record:
        """As :meth:`Store.add`, in one transaction."""
        with self._writing():
            return super().add(signature, body, returncode=returncode, step=step)

    def get(self, id: str) -> Record | None:
        """The record of a normal id, as it is in the file now."""
        row = self._db.execute(f"{_FOUND} WHERE id = ?", (id,)).fetchone()
        return self._record(*row) if row else None

    def __getitem__(self, id: str) -> Record:
        record = self.get(id)
        if record is None:
            raise KeyError(id)
        return record

    def latest(self, limit: int) -> Sequence[Record]:
        """The records added last, oldest first: what an agent that starts again may want to be told of."""
        rows = self._db.execute(f"{_FOUND} ORDER BY number DESC LIMIT ?", (limit,)).fetchall()
        return [self._record(*row) for row in reversed(rows)]

    def next_step(self) -> int:
        """One more than the highest step of any occurrence; 0 in an empty store."""
        return self._value("SELECT coalesce(max(step) + 1, 0) FROM occurrences")

    def nearest(self, id: str, limit: int) -> Sequence[str]:
        """Ids that differ least from an unknown one, nearest first. Reads every id and no body."""
        rows = self._db.execute("SELECT id FROM records INDEXED BY record_ids ORDER BY number")
        found = process.extract(id, [row[0] for row in rows], scorer=Levenshtein.distance, limit=limit)
        return [str(match) for match, _, _ in found]

    def count_recall(self, record: Record) -> None:
        """One more recall of this record."""
        nth = "(SELECT coalesce(max(nth) + 1, 0) FROM recalls WHERE record = records.number)"
        self._append("recalls (record, nth)", f"number, {nth}", record.id)
        record.recalls += 1

    def _keep(self, record: Record) -> None:
        self._db.execute(
            "INSERT INTO records (id, signature, returncode, body) VALUES (?, ?, ?, ?)",
            (record.id, record.signature.encode(), record.returncode, record.body.encode()),
        )
        self._append("occurrences (record, nth, step)", "number, 0, ?", record.id, record.steps[0])

    def _repeat(self, record: Record, step: int) -> None:
        self._append("occurrences (record, nth, step)", "number, ?, ?", record.id, len(record.steps), step)
        record.steps.append(step)

    def _append(self, into: str, values: str, id: str, *bound: int) -> None:
        self._db.execute(f"INSERT INTO {into} SELECT {values} FROM records WHERE id = ?", (*bound, id))

    def _record(self, number: int, id: str, signature: bytes, returncode: int, body: bytes) -> Record:
        steps = self._db.execute("SELECT step FROM occurrences WHERE record = ? ORDER BY nth", (number,)).fetchall()
        recalls = self._value("SELECT coalesce(max(nth) + 1, 0) FROM recalls WHERE record = ?", number)
        return Record(id, signature.decode(), body.decode(), returncode, [step for (step,) in steps], recalls)

    def _value(self, query: str, *bound: int) -> int:
        return int(self._db.execute(query, bound).fetchone()[0])

    def _pragma(self, name: str) -> int:
        return self._value(f"PRAGMA {name}")

    @contextmanager
    def _writing(self) -> Iterator[None]:
        """One transaction, during which no other process writes."""
        self._db.execute("BEGIN IMMEDIATE")
        try:
            yield
        except BaseException:
            if self._db.in_transaction:  # SQLite itself has rolled back after some errors, such as a full disk
                self._db.execute("ROLLBACK")
            raise
        self._db.execute("COMMIT")
