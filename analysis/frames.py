"""What is read of the records, kept beside them: ``load(root)`` gives what ``arcbench.records.load`` gives, and where
nothing has changed in a quarter of the time.

What a run's records gave is written to ``<run>/.frames/<part>.parquet`` with a key: the hash of every byte of
``episodes.jsonl``, and of the source of what reads it. Another key, a damaged file or a folder that cannot be written
cost time and nothing else. An analysis of its own keeps what it reads of the records by a :class:`Part` of its own.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import os
from collections.abc import Mapping, Sequence
from pathlib import Path

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

from arcbench import records
from arcbench.records import EPISODES, Columns, Frames, Part, Run
from arcbench.types import ConfigError

FOLDER = ".frames"
_KEY = b"arcbench.key"
_ROOT = Path(__file__).resolve().parent.parent


def load(root: Path | str) -> Frames:
    """The frames over all runs below ``root``, for tables: runs of one benchmark must be of one protocol. Raises
    :class:`RunError` as ``arcbench.records.load``, and :class:`ConfigError` on two protocols."""
    return load_with(root, {})[0]


def load_with(root: Path | str, own: Mapping[str, Part]) -> tuple[Frames, dict[str, pd.DataFrame]]:
    """As :func:`load`, and in the same pass what an analysis of its own reads: by the same names, a frame of each of
    its parts, joined by run_dir and task. Raises as :func:`load`."""
    found: dict[str, Columns] = {name: {} for name in own}

    def take_all(run: Run, parts: Sequence[Part]) -> dict[str, Columns]:
        taken = take(run, [*parts, *own.values()])
        for name, part in own.items():
            columns = taken.pop(part.name)
            for column, values in ({"run_dir": [str(run.path)] * len(columns["task"])} | columns).items():
                found[name].setdefault(column, []).extend(values)
        return taken

    frames = records.load(root, take_all)
    one_protocol(frames.runs)
    return frames, {name: records.frame(columns) for name, columns in found.items()}


def one_protocol(runs: pd.DataFrame) -> None:
    """Refuse runs of two versions of the protocol in the tables of one benchmark. Raises :class:`ConfigError`."""
    for harness, of_harness in runs.groupby("harness"):
        folders = {str(run["protocol"]): run["run_dir"] for run in of_harness.to_dict("records")}
        if len(folders) > 1:
            found = ", ".join(f"{protocol} in {folder}" for protocol, folder in sorted(folders.items()))
            raise ConfigError(
                f"{harness}: runs of {len(folders)} protocols cannot stand in one table ({found}); run one of them "
                "again, or move it away"
            )


def take(run: Run, parts: Sequence[Part]) -> dict[str, Columns]:
    """As ``run.take(parts)``, from what is kept as far as that is still what the records give."""
    key = key_of(run)
    kept = {part.name: _read(_file(run, part), key, part.columns) for part in parts}
    missing = [part for part in parts if kept[part.name] is None]
    if missing:
        taken = run.take(missing)
        if key_of(run) == key:  # else somebody was writing while we read
            for part in missing:
                _write(_file(run, part), key, taken[part.name])
        kept |= taken
    return {name: columns for name, columns in kept.items() if columns is not None}


def _file(run: Run, part: Part) -> Path:
    return run.path / FOLDER / f"{part.name}.parquet"


def key_of(run: Run) -> bytes:
    """What the parts of a run follow from: the content of its records, and our code."""
    try:
        with (run.path / EPISODES).open("rb") as file:
            content = hashlib.file_digest(file, "sha256").hexdigest()
    except FileNotFoundError:
        content = ""
    return f"{content} {_source()}".encode()


@functools.cache
def _source() -> str:
    """Hash of our code: any change may alter what is read."""
    sources = sorted(path for package in ("arcbench", "analysis") for path in (_ROOT / package).rglob("*.py"))
    return hashlib.sha256(b"\0".join(path.read_bytes() for path in sources)).hexdigest()


def _read(path: Path, key: bytes, columns: Sequence[str]) -> Columns | None:
    """What is kept under this key; ``None`` when that is nothing, or damaged."""
    try:
        with pq.ParquetFile(path, page_checksum_verification=True) as file:
            if (file.schema_arrow.metadata or {}).get(_KEY) != key:
                return None
            table = file.read()
            return {name: table.column(name).to_pylist() for name in columns}
    except (OSError, pa.ArrowException, KeyError):  # a damaged file may have lost a name
        return None


def _write(path: Path, key: bytes, columns: Columns) -> None:
    """Keep it if that is possible."""
    draft = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        path.parent.mkdir(exist_ok=True)
        table = pa.table(columns).replace_schema_metadata({_KEY: key})
        if any(pa.types.is_nested(kind) for kind in table.schema.types):
            return  # what is nested may come back otherwise
        pq.write_table(table, draft, write_page_checksum=True)
        draft.replace(path)
    except (OSError, pa.ArrowException, ValueError, OverflowError):
        with contextlib.suppress(OSError):
            draft.unlink()
