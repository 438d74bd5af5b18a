"""The store and the catalog of the variant that the paper proves (ARC, Appendix A, Assumptions 4 to 6)."""

from __future__ import annotations

from collections.abc import Sequence

from rapidfuzz import process
from rapidfuzz.distance import Levenshtein

from arcbench.arc.store import EXTENSION_CHARS, ID_CHARS, SEPARATOR, Record, sha1_hex
from arcbench.checks import whole
from arcbench.types import ConfigError


class OccurrenceStore:
    """Every observation is a record of its own, in order; nothing is changed, cut or deleted.

    An id is the occurrence index at fixed width and then a fingerprint of what was observed. The index
    alone makes ids distinct (Lemma 10); the fingerprint lets a person see that two records are alike.
    ``index_chars`` hex characters hold ``most`` = 16**index_chars - 1 records (N_max).
    """

    def __init__(self, index_chars: int) -> None:
        self.index_chars = whole("method.index_chars", index_chars, EXTENSION_CHARS)
        if index_chars % EXTENSION_CHARS:  # so that every id has a length that `normal_id` knows
            raise ConfigError(f"method.index_chars={index_chars}: must be a multiple of {EXTENSION_CHARS}")
        self.most = 16**index_chars - 1
        self.records: list[Record] = []
        self.payload_chars = 0
        """Characters of all bodies together."""

    def __len__(self) -> int:
        return len(self.records)

    def add(self, signature: str, body: str, *, returncode: int, step: int) -> Record:
        """Keep an observation. Raises ``OverflowError`` when the fixed width is used up."""
        index = len(self.records) + 1
        if index > self.most:
            raise OverflowError(f"the store is full: method.index_chars={self.index_chars} holds {self.most} records")
        fingerprint = sha1_hex(signature.encode() + SEPARATOR + body.encode())[:ID_CHARS]
        record = Record(f"{index:0{self.index_chars}x}{fingerprint}", signature, body, returncode, [step])
        self.records.append(record)
        self.payload_chars += len(body)
        return record

    def get(self, id: str) -> Record | None:
        """The record of an id, found by its index."""
        if len(id) != self.index_chars + ID_CHARS:
            return None
        index = int(id[: self.index_chars], 16)
        record = self.records[index - 1] if 1 <= index <= len(self.records) else None
        return record if record and record.id == id else None

    def nearest(self, id: str, limit: int) -> Sequence[str]:
        """Ids that differ least from an unknown one, nearest first."""
        ids = [record.id for record in self.records]
        return [str(match) for match, _, _ in process.extract(id, ids, scorer=Levenshtein.distance, limit=limit)]


class Catalog:
    """One stub per record, ``per_page`` (p) stubs a page, one page open at a time."""

    def __init__(self, per_page: int) -> None:
        self.per_page = per_page
        self.stubs: list[str] = []
        self.chars = 0
        """Characters of all stubs together."""
        self.open_page = 0
        """The page shown last, from 1; 0 before the first."""

    def add(self, stub: str) -> None:
        """Append the stub of the newest record."""
        self.stubs.append(stub)
        self.chars += len(stub)

    @property
    def pages(self) -> int:
        """How many pages there are."""
        return -(-len(self.stubs) // self.per_page)

    def page(self, number: int) -> Sequence[str]:
        """The stubs of page ``number`` (from 1): (number-1)p+1 to number*p. Empty past the end."""
        return self.stubs[(number - 1) * self.per_page : number * self.per_page]
