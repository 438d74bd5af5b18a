"""ARC as its paper proves it (Appendix A, Assumptions 3 to 8): every prompt within a fixed budget.

The view is the prefix (B), a log of older turns (M), one open catalog page (P), the open chunks of
recalled observations (Q) and the recent turns (R); with the overhead, K = B + M + R + P + Q + overhead
<= L. The budgets hold after every turn, not only when a window overflows, whatever was observed.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from arcbench.arc.catalog import Catalog, OccurrenceStore
from arcbench.arc.replies import shortened, signature_of
from arcbench.arc.store import ID_CHARS, Record, normal_id
from arcbench.checks import documented, one_of, template, whole
from arcbench.text import fill
from arcbench.types import (
    Action,
    ActionDoc,
    ConfigError,
    Done,
    Fate,
    Message,
    Method,
    NoAnswer,
    Nothing,
    Observation,
    Part,
    Turn,
    Workbench,
)

PARTS = ("prefix", "log", "recent", "page", "recalled", "overhead")
ACTIONS = ("_catalog_first", "_catalog_next", "_recall_start", "_recall_next")
_PLACES = {
    "notice": ("count",),
    "stub": ("id", "signature", "chars", "returncode"),
    "page": ("page", "pages"),
    "no_page": ("pages",),
    "chunk": ("id", "chunk", "chunks"),
    "no_chunk": ("id",),
    "empty": ("id",),
    "not_started": ("id",),
    "bad_id": ("action",),
    "unknown_id": ("id", "nearest"),
    "too_many": ("limit",),
    "closed": (),
}


@dataclass
class Chunks:
    """One recall under way: the chunks of a body and how many of them were given."""

    pieces: list[str]
    given: int = 0


@dataclass
class Entry:
    """A turn in the view, and how it is shown."""

    turn: Turn
    record: Record | None
    shown: tuple[Message, Message]
    """Its reply and result as they stand in the view, open content apart."""
    open: Message | None = None
    """Instead of the result: a page or a chunk, while it is open."""
    content: Literal["page", "chunk"] | None = None
    cited: bool = False

    def messages(self) -> tuple[Message, Message]:
        """What the agent sees of it."""
        return self.shown[0], self.open or self.shown[1]


@dataclass
class Given:
    """What the next observed turn will show: set by ``handle``, taken by ``observe``."""

    content: Literal["page", "chunk"] | None = None
    note: str = ""


class ArcPaged(Method):
    """The proved variant. Ids carry an occurrence index; the catalog of stubs lives outside the prompt and
    one page of it can be opened; a large body comes back in exact, ordered chunks of at most q tokens.

    ``split`` gives the six budgets in tokens; the prefix's is measured for each task, and what it takes
    beyond its share the recent turns give. q = ``recall_max_chars`` / ``chars_per_token``; a chunk stands
    in a message of at most q + ``wrapper_tokens``. ``stub_tokens`` (c) is the most a stub may take, so a
    page holds p = P / c of them. ``thought_chars``, ``recalls_per_step``, ``nearest_ids`` and ``texts`` as
    in `arc`. Raises :class:`ConfigError` for a split that cannot work.
    """

    def __init__(
        self,
        *,
        id: str,
        promise: str,
        variant: str | None,
        split: Mapping[str, int],
        chars_per_token: int,
        wrapper_tokens: int,
        stub_tokens: int,
        index_chars: int,
        thought_chars: int,
        signature_chars: int,
        recalls_per_step: int,
        nearest_ids: int,
        actions: Mapping[str, Mapping[str, str]],
        texts: Mapping[str, str],
        bench: Workbench,
    ) -> None:
        super().__init__(id=id, promise=promise, bench=bench)
        self.variant = variant
        for key in split:
            one_of("budget.arc_paged", key, PARTS)
        self.split = {part: whole(f"budget.arc_paged.{part}", split.get(part), 1) for part in PARTS}
        self.thought_chars = whole("method.thought_chars", thought_chars, 1)
        self.signature_chars = whole("method.signature_chars", signature_chars, 1)
        self.recalls_per_step = whole("method.recalls_per_step", recalls_per_step, 1)
        self.nearest_ids = whole("method.nearest_ids", nearest_ids, 1)
        self.stub_tokens = whole("method.stub_tokens", stub_tokens, 1)
        self.wrapper_tokens = whole("method.wrapper_tokens", wrapper_tokens, 1)
        self.chunk_tokens = bench.budget.recall_max_chars // whole("method.chars_per_token", chars_per_token, 1)
        for key in texts:
            one_of("method.texts", key, _PLACES)
        self.texts = {key: template(f"method.texts.{key}", texts.get(key), *_PLACES[key]) for key in _PLACES}
        self.docs = documented(actions, ACTIONS)
        self._check_split()
        self.store = OccurrenceStore(index_chars)
        self.catalog = Catalog(self.split["page"] // self.stub_tokens)
        self.recent_tokens = self.split["recent"]
        self.log: list[Entry] = []
        self.recent: list[Entry] = []
        self.recalls: dict[str, Chunks] = {}
        self.open_chunks: OrderedDict[int, int] = OrderedDict()  # turn index -> tokens, least recently opened first
        self.recalls_this_step = 0
        self._given = Given()

    def _check_split(self) -> None:
        budget = self.bench.budget
        total, usable = sum(self.split.values()), budget.usable_tokens
        if total > usable:
            parts = " + ".join(f"{self.split[part]} {part}" for part in PARTS)
            raise ConfigError(
                f"budget.arc_paged: {parts} = {total}: must be at most {usable}, the window less the completion"
            )
        needed = self.chunk_tokens + self.wrapper_tokens
        if self.chunk_tokens < 1 or needed > self.split["recalled"]:
            raise ConfigError(
                f"budget.recall_max_chars={budget.recall_max_chars}: a chunk of {self.chunk_tokens} tokens and its "
                f"wrapper of {self.wrapper_tokens} must fit budget.arc_paged.recalled={self.split['recalled']}"
            )
        if self.split["page"] < self.stub_tokens:
            raise ConfigError(
                f"budget.arc_paged.page={self.split['page']}: must hold a stub of method.stub_tokens={self.stub_tokens}"
            )

    def _check_texts(self) -> None:
        """What stands around a stub, a chunk and the turns, with the longest numbers there can be. Only now,
        since it takes the engine's tokenizer."""
        id, most = "0" * (self.store.index_chars + ID_CHARS), -(2**31)
        stub = fill(self.texts["stub"], id=id, signature="…", chars=-most, returncode=most)
        chunk = fill(self.texts["chunk"], id=id, chunk=self.store.most, chunks=self.store.most)
        notice = fill(self.texts["notice"], count=self.store.most)
        for key, value, needed in (
            ("method.stub_tokens", self.stub_tokens, self.bench.count_text(f"{stub}\n")),
            ("method.wrapper_tokens", self.wrapper_tokens, self._weight((Message("user", f"{chunk}\n"),))),
            ("budget.arc_paged.overhead", self.split["overhead"], self.bench.count((Message("user", notice),))),
        ):
            if value < needed:
                raise ConfigError(f"{key}={value}: must be at least {needed}, what the fixed words alone take")

    # ---------------------------------------------------------------------------------------- view

    def begin(self, prefix: tuple[Message, ...]) -> NoAnswer | None:
        """Measure B; what it takes beyond its share the recent turns give. Raises
        :class:`ConfigError` when a fixed text takes more tokens than are set aside for it."""
        super().begin(prefix)
        self._check_texts()
        excess = max(0, self._weight(prefix) - self.split["prefix"])
        self.recent_tokens = self.split["recent"] - excess
        # the newest turn at its smallest is a shortened reply and a stub, and must always have room
        return "prefix_too_large" if self.recent_tokens < 4 * self.stub_tokens else None

    def view(self) -> Sequence[Message]:
        """Prefix, notice, log, recent turns."""
        entries = (*self.log, *self.recent)
        return [*self.prefix, *self._notice(), *(message for entry in entries for message in entry.messages())]

    def tokens(self) -> dict[str, int]:
        """Tokens of each part of the view now; none exceeds its budget (Lemma 11)."""
        opened = [(entry, self._weight((entry.open,)) - self._weight(entry.shown[1:])) for entry in self.recent
                  if entry.open is not None]  # fmt: skip
        parts = {
            "prefix": self._weight(self.prefix),
            "log": sum(self._weight(entry.shown) for entry in self.log),
            "recent": sum(self._weight(entry.shown) for entry in self.recent),
            "page": sum(size for entry, size in opened if entry.content == "page"),
            "recalled": sum(size for entry, size in opened if entry.content == "chunk"),
        }
        return parts | {"overhead": self.bench.count(self.view()) - sum(parts.values())}

    async def observe(self, turn: Turn) -> Done | None:
        """Store what was observed, then bring every part of the view back into its budget."""
        entry = Entry(turn, None, (turn.reply, turn.result))
        was = {other.turn.index: other.messages() for other in (*self.log, *self.recent, entry)}
        if turn.answered_by == "environment":
            self.recalls_this_step = 0
            if not turn.observation.restored:
                body, code = turn.observation.text, turn.observation.returncode
                entry.record = self.store.add(signature_of(turn), body, returncode=code, step=turn.index)
                self.catalog.add(self._stub(entry.record))
        elif self._given.content:
            self._open(entry)
        self._given = Given()
        self.recent.append(entry)
        fates = self._settle(len(self.recent))
        now = {entry.turn.index: entry.messages() for entry in (*self.log, *self.recent)}
        if now == was:
            return None
        self._note_citations()
        return Done(fates)

    async def compact(self, reason: Literal["forced", "overflow"]) -> Done | Nothing:
        """Down to the recent turns. The budgets already hold, so a real overflow can only be the prefix's."""
        if reason == "overflow":
            return Nothing()
        fates = self._settle(self.bench.budget.keep_recent_turns)
        self._note_citations()
        return Done(fates)

    def _settle(self, most_turns: int) -> dict[Part, Fate]:
        """Move what is no longer recent to the log, and what the log no longer holds out of the view."""
        before = [*self.log, *self.recent]
        newest = self.recent[-1] if self.recent else None
        if newest is not None and self._weight(newest.shown) > self.recent_tokens:
            self._make_small(newest)
        kept: list[Entry] = []
        used = 0
        for entry in reversed(self.recent):
            used += self._weight(entry.shown)
            if kept and (used > self.recent_tokens or len(kept) == most_turns):
                break
            kept.append(entry)
        leaving = self.recent[: len(self.recent) - len(kept)]
        self.recent = kept[::-1]
        for entry in leaving:
            self._retire(entry)
        size = sum(self._weight(entry.shown) for entry in self.log)
        while self.log and size > self.split["log"]:
            size -= self._weight(self.log.pop(0).shown)
        return self._fates(before)

    def _make_small(self, entry: Entry) -> None:
        """A turn too large for the recent suffix: its observation is cited at once, an answer that was not
        stored (which may repeat whatever the agent wrote) is cut, its reply shortened."""
        if entry.record is not None:
            result, entry.cited = Message("user", self._stub(entry.record)), True
        else:
            result = self._cut(entry.shown[1], self.recent_tokens // 2)
        reply = shortened(entry.turn.reply, self.thought_chars, self.signature_chars)
        entry.shown = (self._cut(reply, self.recent_tokens - self._weight((result,))), result)

    def _cut(self, message: Message, most_tokens: int) -> Message:
        """The beginning of a message, when the whole is too large."""
        if self._weight((message,)) <= most_tokens:
            return message
        spare = most_tokens - self._weight((Message(message.role, "…"),))
        beginning = "".join(self.bench.pieces(message.content, max(spare, 1))[:1])
        return Message(message.role, f"{beginning}…")

    def _retire(self, entry: Entry) -> None:
        """A turn leaves the recent suffix: what it opened is closed; an observation goes to the log, cited
        when it is long; notices, corrections and answered recalls just go."""
        self._close(entry)
        if entry.record is None:
            return
        reply, result = shortened(entry.shown[0], self.thought_chars, self.signature_chars), entry.shown[1]
        if not entry.cited and entry.record.chars > self.bench.budget.keep_verbatim_chars:
            result, entry.cited = Message("user", self._stub(entry.record)), True
        entry.shown = (reply, result)
        self.log.append(entry)

    def _note_citations(self) -> None:
        """For the record: what the citations in view take, against what they stand for and what the store holds."""
        cited = [entry for entry in (*self.log, *self.recent) if entry.cited]
        self.bench.note(
            "citations",
            cited=len(cited),
            full=0,
            tokens=sum(self._weight(entry.shown[1:]) for entry in cited),
            replaced_tokens=sum(self._weight((entry.turn.result,)) for entry in cited),
            bare_tokens=None,  # what leaves the log stands in the catalog, outside the prompt
            hint_tokens=self._weight(self._notice()),
            archive_chars=self.store.payload_chars + self.catalog.chars,
            payload_chars=self.store.payload_chars,
        )

    def _notice(self) -> tuple[Message, ...]:
        """Shown as soon as something that was observed no longer stands in the recent turns as it was."""
        whole = sum(entry.record is not None and not entry.cited for entry in self.recent)
        if len(self.store) == whole:
            return ()
        return (Message("user", fill(self.texts["notice"], count=len(self.store))),)

    def _fates(self, before: Sequence[Entry]) -> dict[Part, Fate]:
        still = {entry.turn.index for entry in (*self.log, *self.recent)}
        fates: dict[Part, Fate] = {}
        for entry in before:
            index = entry.turn.index
            if index in still:
                closed = entry.content is not None and entry.open is None
                fates[index, "reply"] = "kept"
                fates[index, "result"] = "cited" if entry.cited else "archived" if closed else "kept"
            else:  # a record, or what was opened of it, stays reachable through the catalog; a notice is gone
                reachable = entry.record is not None or entry.content is not None
                fates[index, "reply"] = "dropped"
                fates[index, "result"] = "archived" if reachable else "dropped"
        return fates

    # ------------------------------------------------------------------------- catalog and recall

    def actions(self) -> Sequence[ActionDoc]:
        """Paging through the catalog, and recall in chunks."""
        return self.docs

    async def handle(self, action: Action) -> Observation:
        """Answer from the store and the catalog alone; what is not valid does nothing and says so."""
        if action.name in ("_catalog_first", "_catalog_next"):
            return self._page(1 if action.name == "_catalog_first" else self.catalog.open_page + 1)
        id = normal_id(action.argument)
        if id is None:
            return Observation(fill(self.texts["bad_id"], action=action.name), returncode=2)
        record = self.store.get(id)
        if record is None:
            near = ", ".join(f"§{other}" for other in self.store.nearest(id, self.nearest_ids))
            return Observation(fill(self.texts["unknown_id"], id=id, nearest=near or "none"), returncode=1)
        if action.name == "_recall_start":
            if self.recalls_this_step >= self.recalls_per_step:
                return Observation(fill(self.texts["too_many"], limit=self.recalls_per_step), returncode=1)
            self.recalls_this_step += 1
            record.recalls += 1
            self.recalls[id] = Chunks(self.bench.pieces(record.body, self.chunk_tokens))
            self.bench.note("recall", id=id, chars=record.chars, chunks=len(self.recalls[id].pieces))
        return self._chunk(id)

    def _page(self, number: int) -> Observation:
        stubs = self.catalog.page(number)
        if not stubs:
            return Observation(fill(self.texts["no_page"], pages=self.catalog.pages), returncode=1)
        self.catalog.open_page = number
        note = fill(self.texts["page"], page=number, pages=self.catalog.pages)
        self._given = Given("page", note)
        return Observation("\n".join(stubs), note=note, exact=True)

    def _chunk(self, id: str) -> Observation:
        recall = self.recalls.get(id)
        if recall is None:
            return Observation(fill(self.texts["not_started"], id=id), returncode=1)
        if recall.given == len(recall.pieces):
            return Observation(fill(self.texts["no_chunk" if recall.pieces else "empty"], id=id), returncode=1)
        recall.given += 1
        note = fill(self.texts["chunk"], id=id, chunk=recall.given, chunks=len(recall.pieces))
        self._given = Given("chunk", note)
        return Observation(recall.pieces[recall.given - 1], note=note, exact=True)

    def _open(self, entry: Entry) -> None:
        """Show a page or a chunk: the page that was open is closed, and the chunks that have no room left."""
        closed = Message("user", f"{self._given.note}\n{self.texts['closed']}")
        entry.open, entry.content = entry.turn.result, self._given.content
        entry.shown = (entry.turn.reply, closed)
        size = self._weight((entry.open,))
        if entry.content == "page":
            for other in self.recent:
                if other.content == "page":
                    self._close(other)
            return
        self.open_chunks[entry.turn.index] = size
        while sum(self.open_chunks.values()) > self.split["recalled"] and len(self.open_chunks) > 1:
            index = next(iter(self.open_chunks))
            self._close(next(other for other in self.recent if other.turn.index == index))

    def _close(self, entry: Entry) -> None:
        entry.open = None
        self.open_chunks.pop(entry.turn.index, None)

    # --------------------------------------------------------------------------------------- texts

    def _stub(self, record: Record) -> str:
        """At most c tokens: the signature gives way."""
        signature, most = record.signature, self.stub_tokens
        if self._stub_size(record, signature) > most:
            room = most - self._stub_size(record, "…")
            begun = "".join(self.bench.pieces(signature, max(room, 1))[:1])
            while begun and self._stub_size(record, f"{begun}…") > most:
                begun = begun[:-1]
            signature = f"{begun}…"
        return self._stub_of(record, signature)

    def _stub_of(self, record: Record, signature: str) -> str:
        return fill(
            self.texts["stub"], id=record.id, signature=signature, chars=record.chars, returncode=record.returncode
        )

    def _stub_size(self, record: Record, signature: str) -> int:
        return self.bench.count_text(f"{self._stub_of(record, signature)}\n")

    def _weight(self, shown: Sequence[Message]) -> int:
        return self.bench.count(shown) - self.bench.count(())
