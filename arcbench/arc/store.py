"""ARC's observation store: append-only, verbatim, addressed by a short content id (ARC, Proposed Method, Eq. 6)."""

from __future__ import annotations

import hashlib
import re
import unicodedata
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from rapidfuzz import process
from rapidfuzz.distance import Levenshtein

ID_CHARS = 8
EXTENSION_CHARS = 4
SEPARATOR = b"\x1f"
_ID = re.compile(rf"[0-9a-f]{{{ID_CHARS}}}(?:[0-9a-f]{{{EXTENSION_CHARS}}})*")
_AROUND = " \t'\"`[](){}<>§#.,;:!?"


def sha1_hex(data: bytes) -> str:
    """Hex digest that ids are cut from."""
    return hashlib.sha1(data, usedforsecurity=False).hexdigest()


def normal_id(text: str) -> str | None:
    """The one normal form of an id as an agent may write it: ``§ab12cd34``, ``ab12cd34``, ``[§AB12CD34]``,
    ``§ab12cd34.`` and full-width digits all give ``ab12cd34``. None when ``text`` is not one id."""
    plain = unicodedata.normalize("NFKC", text).strip(_AROUND).lower()
    return plain if _ID.fullmatch(plain) else None


@dataclass(slots=True)
class Record:
    """One stored observation. ``steps`` are the turns at which this action gave this observation."""

    id: str
    signature: str
    body: str
    returncode: int
    steps: list[int]
    recalls: int = 0

    @property
    def chars(self) -> int:
        """Length of the body."""
        return len(self.body)


class Store:
    """Records by id, in order of creation; nothing is ever changed, cut or deleted (Assumption 5).

    ``hex_digest`` maps bytes to at least 40 hex characters; only a test of collisions passes another.
    """

    def __init__(self, hex_digest: Callable[[bytes], str] = sha1_hex) -> None:
        self._records: dict[str, Record] = {}
        self._hex_digest = hex_digest

    def __len__(self) -> int:
        return len(self._records)

    def add(self, signature: str, body: str, *, returncode: int, step: int) -> Record:
        """Keep an observation. The same action giving the same observation again is the same record with
        another occurrence; a *different* record with the same id makes the new id longer."""
        digest = self._hex_digest(signature.encode() + SEPARATOR + body.encode())
        length = ID_CHARS
        while (record := self.get(digest[:length])) is not None:
            if record.signature == signature and record.body == body:
                self._repeat(record, step)
                return record
            if length >= len(digest):
                raise LookupError(f"no id is left for {signature!r}: two records share all {length} hex characters")
            length += EXTENSION_CHARS
        record = Record(digest[:length], signature, body, returncode, [step])
        self._keep(record)
        return record

    def _keep(self, record: Record) -> None:
        self._records[record.id] = record

    def _repeat(self, record: Record, step: int) -> None:
        record.steps.append(step)

    def count_recall(self, record: Record) -> None:
        """One more recall of this record."""
        record.recalls += 1

    def get(self, id: str) -> Record | None:
        """The record of a normal id."""
        return self._records.get(id)

    def __getitem__(self, id: str) -> Record:
        return self._records[id]

    def nearest(self, id: str, limit: int) -> Sequence[str]:
        """Ids that differ least from an unknown one, nearest first."""
        found = process.extract(id, self._records.keys(), scorer=Levenshtein.distance, limit=limit)
        return [str(match) for match, _, _ in found]
