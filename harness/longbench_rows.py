"""The rows of LongBench-v2: read once per process, from the hub or a local file, and checked before anything runs."""

from __future__ import annotations

import hashlib
import importlib
import json
import lzma
from array import array
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import BinaryIO, cast

import orjson

from arcbench.text import admit
from arcbench.types import ConfigError, Json

LETTERS = ("A", "B", "C", "D")
COLUMNS = (
    "_id", "domain", "sub_domain", "difficulty", "length", "question",
    "choice_A", "choice_B", "choice_C", "choice_D", "answer", "context",
)  # fmt: skip
KINDS: Mapping[str, tuple[str, ...]] = {
    "difficulty": ("easy", "hard"),
    "length": ("short", "medium", "long"),
    "answer": LETTERS,
}
MAY_BE_BLANK = ("domain", "sub_domain")
BYTE_ORDER_MARK = b"\xef\xbb\xbf"
HARD_IDS = Path(__file__).with_name("longbench_v2_hard_ids.txt")
"""The ids of the benchmark's hard rows, in its order, so that missing ones can be named."""


@dataclass(frozen=True, eq=False)
class Row:
    """One hard row. ``index`` is its place among the hard rows of the data. The context is kept as UTF-8 (half or
    a quarter of what a text with one unusual character takes); rows that share one share the object."""

    index: int
    id: str
    domain: str
    sub_domain: str
    length: str
    question: str
    choices: tuple[str, ...]
    answer: str
    context: bytes
    context_sha256: str
    """Of the text as UTF-8; of the escaped text, where it is not valid Unicode."""
    escaped: bool
    """Whether the context is not valid Unicode, and so was escaped (:func:`arcbench.text.admit`)."""
    chars: int
    """Characters of the context."""
    _bounds: dict[int, array[int]] = field(default_factory=dict, repr=False)

    def text(self) -> str:
        """The context; decoded anew each time."""
        return self.context.decode("utf-8")

    def bounds(self, most_chars: int) -> array[int]:
        """The :func:`chunk_bounds` of the context, computed once."""
        if most_chars not in self._bounds:
            self._bounds[most_chars] = chunk_bounds(self.text(), most_chars)
        return self._bounds[most_chars]

    @property
    def lines(self) -> int:
        """Lines of the context; a last line needs no newline to be one."""
        return self.context.count(b"\n") + (not self.context.endswith(b"\n"))


@dataclass(frozen=True, eq=False)
class Rows:
    """The hard rows of one source, and what is known of it."""

    hard: tuple[Row, ...]
    read: int
    """Rows of the source, the easy ones included."""
    sha256: str
    """Over the hard rows in canonical form, whatever their order and however the file was packed."""

    def describe(self) -> dict[str, Json]:
        """For the manifest: counts, hash, how often each letter is right, and which rows of the benchmark are
        missing or are none of its."""
        known = HARD_IDS.read_text("ascii").split()
        here = {row.id for row in self.hard}
        answers = Counter(row.answer for row in self.hard)
        return {
            "rows_read": self.read,
            "rows_hard": len(self.hard),
            "rows_of_benchmark": len(known),
            "missing": [id for id in known if id not in here],
            "not_of_benchmark": len(here.difference(known)),
            "distinct_contexts": len({row.context_sha256 for row in self.hard}),
            "answers": {letter: answers[letter] for letter in LETTERS},
            "sha256": self.sha256,
        }


def chunk_bounds(text: str, most_chars: int) -> array[int]:
    """Offsets that cut a text into exact slices of at most ``most_chars`` characters: behind a slice's last line
    end where it has one, else between two characters. First 0, last the length."""
    bounds = array("q", [0])
    while bounds[-1] < len(text):
        start, end = bounds[-1], bounds[-1] + most_chars
        if end < len(text):
            bounds.append(text.rfind("\n", start, end) + 1 or end)
        else:
            bounds.append(len(text))
    return bounds


# ----------------------------------------------------------------------------------------- sources


def from_file(path: str) -> Rows:
    """The rows of a local ``.jsonl`` or ``.jsonl.xz``; read once while the file stays as it is.
    Raises :class:`ConfigError`, naming the line and what is wrong with it."""
    if not isinstance(path, str) or not path.endswith((".jsonl", ".jsonl.xz")):
        raise ConfigError(f"harness.data_files={path}: must be a .jsonl or .jsonl.xz file, or null for the hub")
    try:
        stat = Path(path).stat()
        return _from_file(str(Path(path).resolve()), path, stat.st_mtime_ns, stat.st_size)
    except OSError as fault:
        raise ConfigError(f"harness.data_files={path}: cannot be read ({fault.strerror or fault})") from None


@lru_cache(maxsize=2)
def _from_file(resolved: str, named: str, mtime_ns: int, size: int) -> Rows:
    return check(f"harness.data_files={named}", "line", _lines(resolved, named))


def _lines(resolved: str, named: str) -> Iterator[tuple[int, Json]]:
    """The objects of the file with their line numbers."""
    key = f"harness.data_files={named}"
    number = 0
    with cast(BinaryIO, (lzma.open if named.endswith(".xz") else open)(resolved, "rb")) as file:
        try:
            for number, line in enumerate(file, 1):
                line = line.removeprefix(BYTE_ORDER_MARK) if number == 1 else line
                if line.strip():
                    yield number, _parsed(line, f"{key}: line {number}")
        except (lzma.LZMAError, EOFError) as fault:
            raise ConfigError(f"{key}: line {number + 1}: damaged or cut short ({fault})") from None


def _parsed(line: bytes, where: str) -> Json:
    try:
        return orjson.loads(line)
    except orjson.JSONDecodeError:
        try:
            return json.loads(line)  # lets lone surrogates pass, which are escaped below
        except (ValueError, RecursionError) as fault:
            raise ConfigError(f"{where}: not JSON ({' '.join(str(fault).split())})") from None


@lru_cache(maxsize=1)
def from_hub(hub_id: str, revision: str, split: str) -> Rows:
    """The rows of the hub's dataset at a pinned revision, by the package ``datasets``. Raises :class:`ConfigError`
    that says how to get a local file."""
    key = f"harness.hub_id={hub_id}"
    way = "where the hub can be reached, run: make longbench-data, then give harness.data_files=data/longbench_v2.jsonl"
    try:
        datasets = importlib.import_module("datasets")
    except ImportError:
        raise ConfigError(f"{key}: the package datasets is not installed; {way}") from None
    try:
        rows = list(enumerate(datasets.load_dataset(hub_id, split=split, revision=revision), 1))
    except Exception as fault:  # whatever the network, the hub and its client raise
        reason = " ".join(f"{type(fault).__name__}: {fault}".split())[:200]
        raise ConfigError(f"{key}: cannot be loaded ({reason}); {way}") from None
    return check(key, "row", rows)


# ---------------------------------------------------------------------------------------- checking


def check(key: str, unit: str, found: Iterable[tuple[int, Json]]) -> Rows:
    """The hard rows of what was found, every row checked. Raises :class:`ConfigError` for the first fault."""
    hard: list[Row] = []
    digests: list[bytes] = []
    seen: dict[str, int] = {}
    contexts: dict[str, bytes] = {}
    for number, row in found:
        where = f"{key}: {unit} {number}"
        fields = _fields(row, where)
        if fields["_id"] in seen:
            raise ConfigError(f"{where} (_id {fields['_id']}): this _id stands in {unit} {seen[fields['_id']]} already")
        seen[fields["_id"]] = number
        if fields["difficulty"] != "hard":
            continue
        made = _row(len(hard), fields, contexts)
        digests.append(_digest(fields, made))
        hard.append(made)
    if not hard:
        raise ConfigError(f"{key}: none of its {len(seen)} rows has difficulty hard")
    return Rows(hard=tuple(hard), read=len(seen), sha256=hashlib.sha256(b"".join(sorted(digests))).hexdigest())


def _fields(row: Json, where: str) -> dict[str, str]:
    """The columns of a row, each a sound text."""
    if not isinstance(row, Mapping):
        raise ConfigError(f"{where}: must be an object with the columns {', '.join(COLUMNS)}")
    if isinstance(row.get("_id"), str):
        where += f" (_id {' '.join(admit(row['_id'])[0].split())[:40]})"
    for name in COLUMNS:
        if name not in row:
            raise ConfigError(f"{where}: no column {name}; there must be {', '.join(COLUMNS)}")
        value = row[name]
        if not isinstance(value, str):
            raise ConfigError(f"{where}: {name} must be a text, not {type(value).__name__}")
        if name in KINDS and value not in KINDS[name]:
            raise ConfigError(f"{where}: {name}={admit(value)[0][:40]!r}: must be one of {', '.join(KINDS[name])}")
        if name not in MAY_BE_BLANK and not value.strip():
            raise ConfigError(f"{where}: {name} is empty")
    return {name: row[name] for name in COLUMNS}


def _row(index: int, fields: Mapping[str, str], contexts: dict[str, bytes]) -> Row:
    text, escaped = admit(fields["context"])
    context = text.encode("utf-8")
    sha256 = hashlib.sha256(context).hexdigest()
    return Row(
        index=index,
        id=admit(fields["_id"])[0],
        domain=admit(fields["domain"])[0],
        sub_domain=admit(fields["sub_domain"])[0],
        length=fields["length"],
        question=admit(fields["question"])[0],
        choices=tuple(admit(fields[f"choice_{letter}"])[0] for letter in LETTERS),
        answer=fields["answer"],
        context=contexts.setdefault(sha256, context),
        context_sha256=sha256,
        escaped=escaped,
        chars=len(text),
    )


def _digest(fields: Mapping[str, str], row: Row) -> bytes:
    """Of a row in canonical form: its columns, sorted by name, the context by its hash."""
    canonical = {name: admit(value)[0] for name, value in fields.items() if name != "context"}
    canonical["context"] = row.context_sha256
    return hashlib.sha256(orjson.dumps(canonical, option=orjson.OPT_SORT_KEYS)).digest()
