"""Which recalled bodies stand in the view: least recently used ones leave first (ARC, Appendix B)."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence


class Recalled:
    """Ids of the bodies in the view, least recently used first, together at most ``budget_chars``."""

    def __init__(self, budget_chars: int) -> None:
        self.budget_chars = budget_chars
        self._chars: OrderedDict[str, int] = OrderedDict()

    @property
    def total_chars(self) -> int:
        """Characters of all bodies in the set."""
        return sum(self._chars.values())

    def use(self, id: str, chars: int) -> list[str]:
        """Put a body in (or renew it) and say which ones had to leave for it, oldest first."""
        self._chars[id] = chars
        self._chars.move_to_end(id)
        gone = []
        while self.total_chars > self.budget_chars and len(self._chars) > 1:
            gone.append(self._chars.popitem(last=False)[0])
        return gone

    def ids(self) -> Sequence[str]:
        """What is in the set, least recently used first."""
        return tuple(self._chars)

    def remove(self, id: str) -> None:
        """Take a body out. Raises ``KeyError`` when it is not in the set."""
        del self._chars[id]
