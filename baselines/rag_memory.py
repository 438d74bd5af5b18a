"""RAG memory: what is removed goes to a search index, and the best passages come back before each call.

Source: the ARC paper (arXiv 2607.25066), Related Works. The size of a passage, how many come back and the
embedding are not stated there: all three are ours.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from arcbench.checks import template, whole
from arcbench.recent import fates, messages, split
from arcbench.text import fill
from arcbench.types import Compaction, ConfigError, Done, Fate, Message, Method, Part, Turn, Workbench
from baselines.retrieval import Bm25, Dense, Retriever


class RagMemory(Method):
    """Keeps the prefix, the recent turns, and an index of the removed ones; recoverable is what a search finds.

    A removed turn is the agent's reply and the whole observation, cut into passages of ``chunk_chars``
    characters, between characters. Before each call the ``top_k`` passages that fit the last action and the
    task best stand in one message just before the newest turn. ``retriever`` is ``bm25`` (``bm25_k1``,
    ``bm25_b``) or ``dense`` (``dense_model``: a hub name or a local folder, on ``dense_device``). ``moved`` tells
    how many turns were removed, ``found`` shows the passages, ``passage`` one of them.

    Passages count as all that is in the view. After each turn they are added whatever the room: an overflow
    that they bring about is an overflow like any other. The compaction that answers it sets their size aside
    before it decides which turns stay; where the newest turn alone leaves too little room below
    ``compact_to_tokens``, the worst passages are left out for that call.
    """

    def __init__(
        self,
        *,
        id: str,
        promise: str,
        bench: Workbench,
        variant: str | None,
        chunk_chars: int,
        top_k: int,
        retriever: str,
        bm25_k1: float,
        bm25_b: float,
        dense_model: str,
        dense_device: str,
        moved: str,
        found: str,
        passage: str,
    ) -> None:
        super().__init__(id=id, promise=promise, bench=bench)
        self.variant = variant
        self.chunk_chars = whole("method.chunk_chars", chunk_chars, 1)
        self.top_k = whole("method.top_k", top_k, 1)
        self.moved = template("method.moved", moved, "count")
        self.found = template("method.found", found, "passages")
        self.passage = template("method.passage", passage, "turn", "part", "parts", "text")
        self.retriever: Retriever
        if retriever == "bm25":
            self.retriever = Bm25(k1=bm25_k1, b=bm25_b)
        elif retriever == "dense":
            self.retriever = Dense(model=dense_model, device=dense_device)
        else:
            raise ConfigError(f"method.retriever={retriever}: must be bm25 or dense")
        self.turns: list[Turn] = []
        self.removed = 0
        self.chunks: list[tuple[str, str]] = []  # id and text as shown, in the order of the index
        self.shown: list[int] = []  # places of the passages in the view, best first
        self.notice: tuple[Message, ...] = ()
        self.passages: tuple[Message, ...] = ()

    async def observe(self, turn: Turn) -> Done | None:
        """Append the turn and search for it."""
        self.turns.append(turn)
        self._search()
        self._note()
        return None

    def view(self) -> Sequence[Message]:
        """The prefix, the notice once something was removed, and the turns, the passages before the newest."""
        return [
            *self.prefix,
            *self.notice,
            *messages(self.turns[:-1]),
            *self.passages,
            *messages(self.turns[-1:]),
        ]

    async def compact(self, reason: Literal["forced", "overflow"]) -> Compaction:
        """Move the turns before the recent ones into the index and search again."""
        where: dict[Part, Fate] = {}
        before = self.shown
        while True:
            # What is moved decides what is found, and its size decides what must be moved: each pass moves
            # more or nothing, so this ends.
            fixed = (*self.prefix, self._moved(self.removed + len(self.turns)), *self.passages)
            divided = split(self.turns, bench=self.bench, reason=reason, fixed=fixed)
            where |= fates(divided, "archived")
            if not divided.older:
                break
            for turn in divided.older:
                self._index(turn)
            self.turns = list(divided.kept)
            self.removed += len(divided.older)
            self.notice = (self._moved(self.removed),)
            self._search()
        most = self.bench.budget.compact_to_tokens
        while reason == "overflow" and self.shown and self.bench.count(self.view()) > most:
            self._show(self.shown[:-1])
        if self.shown != before:
            self._note()
        return Done(where)

    def _index(self, turn: Turn) -> None:
        seen = turn.observation
        text = "\n".join(part for part in (turn.reply.content, seen.note, seen.text) if part)
        pieces = [text[at : at + self.chunk_chars] for at in range(0, len(text), self.chunk_chars)]
        self.retriever.add(pieces)
        for part, piece in enumerate(pieces, start=1):
            shown = fill(self.passage, turn=turn.index, part=part, parts=len(pieces), text=piece)
            self.chunks.append((f"{turn.index}.{part}", shown))

    def _search(self) -> None:
        if not self.chunks:
            return
        action = next((turn.action.text for turn in reversed(self.turns) if turn.action), "")
        # The action comes first: an embedding model reads only so much, and a task can be long.
        goal = self.prefix[-1].content if self.prefix else ""
        self._show(self.retriever.best(f"{action}\n{goal}", self.top_k))

    def _show(self, places: list[int]) -> None:
        self.shown = places
        text = fill(self.found, passages="\n".join(self.chunks[place][1] for place in places))
        self.passages = (Message("user", text),) if places else ()

    def _note(self) -> None:
        if self.chunks:
            self.bench.note("retrieval", chunks=[self.chunks[place][0] for place in self.shown])

    def _moved(self, count: int) -> Message:
        return Message("user", fill(self.moved, count=count))
