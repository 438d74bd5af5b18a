"""Random choices from SHA-256: the same for the same key, on every machine and under every PYTHONHASHSEED."""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Sequence
from functools import lru_cache
from typing import TypeVar

T = TypeVar("T")


@lru_cache
def _symbols(alphabet: str) -> tuple[bytes, bytes]:
    """The symbol of each byte, and the bytes to leave out so that no symbol is favoured."""
    size = len(alphabet)
    return bytes(ord(alphabet[byte % size]) for byte in range(256)), bytes(range(256 - 256 % size, 256))


class Draw:
    """Random choices, the same for the same key anywhere: SHA-256 of the key in counter mode."""

    def __init__(self, *key: str | int) -> None:
        self._key = hashlib.sha256("/".join(str(part) for part in key).encode())
        self._blocks = 0
        self._left = b""

    def take(self, count: int) -> bytes:
        """The next ``count`` bytes."""
        if len(self._left) < count:
            parts = [self._left]
            for _ in range((count - len(self._left) + 31) // 32):
                block = self._key.copy()
                block.update(b"#%d" % self._blocks)
                parts.append(block.digest())
                self._blocks += 1
            self._left = b"".join(parts)
        taken, self._left = self._left[:count], self._left[count:]
        return taken

    def below(self, bound: int) -> int:
        """A whole number from 0 to ``bound`` - 1, all alike: what would favour some is drawn again."""
        size = (bound.bit_length() + 7) // 8
        fair = 256**size - 256**size % bound
        while True:
            value = int.from_bytes(self.take(size), "big")
            if value < fair:
                return value % bound

    def choice(self, items: Sequence[T]) -> T:
        """One of the items, all alike."""
        return items[self.below(len(items))]

    def sample(self, items: Sequence[T], count: int) -> list[T]:
        """``count`` different ones, in random order."""
        left = list(items)
        return [left.pop(self.below(len(left))) for _ in range(count)]

    def text(self, alphabet: str, length: int) -> str:
        """``length`` symbols of the alphabet (ASCII, at most 256), all alike."""
        table, unfair = _symbols(alphabet)
        text = b""
        while len(text) < length:
            text += self.take(length + length // 8 + 1).translate(table, unfair)
        return text[:length].decode("ascii")

    def codes(self, alphabet: str, length: int, count: int, *, but: Sequence[str] = ()) -> list[str]:
        """``count`` different texts, none of them in ``but``."""
        codes: dict[str, None] = {}
        while len(codes) < count:
            block = self.text(alphabet, length * (count - len(codes)))
            codes.update((block[i : i + length], None) for i in range(0, len(block), length))
            for code in but:
                codes.pop(code, None)
        return list(codes)

    def indices(self, bound: int, count: int) -> list[int]:
        """``count`` whole numbers below ``bound``, a power of two of at most 2**16."""
        return [word & (bound - 1) for word in struct.unpack(f">{count}H", self.take(2 * count))]
