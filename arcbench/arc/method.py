"""ARC as its paper evaluates it (Proposed Method; Appendix B): cite old observations, recall them by id."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence, Set
from typing import ClassVar, Literal

from arcbench.arc.recalled import Recalled
from arcbench.arc.replies import cut, shortened, signature_of
from arcbench.arc.store import ID_CHARS, Record, Store, normal_id
from arcbench.checks import documented, one_of, share, template, whole
from arcbench.recent import split, weigh
from arcbench.text import fill
from arcbench.types import (
    Action,
    ActionDoc,
    Done,
    Fate,
    Message,
    Method,
    Observation,
    Part,
    Turn,
    Workbench,
)

ACTIONS = ("_recall", "_recall_meta")
PLACES: Mapping[str, tuple[str, ...]] = {
    "cited": ("id", "signature", "chars", "returncode", "head", "tail", "hint"),
    "hint": ("id",),
    "cited_bare": ("id", "signature"),
    "recalled": ("id", "signature", "chars"),
    "recalled_excerpt": ("id", "signature", "chars"),
    "meta": ("citation", "steps", "recalls"),
    "bad_id": ("action",),
    "unknown_id": ("id", "nearest"),
    "too_many": ("limit",),
}


class Arc(Method):
    """Addressable Recall Compaction, as evaluated (`arc`).

    Every environment observation is stored whole under a short id. Compaction calls no model: older
    long observations become citations in place, older thoughts are truncated, recent turns stay. The
    agent recalls by id; a body longer than ``recall_max_chars`` comes back as a head+tail excerpt.

    Parameters (``conf/method/arc.yaml``): ``preview_chars`` of head and of tail in a citation;
    ``thought_chars`` kept of an older thought; ``recalls_per_step`` (r, paper: 2); ``nearest_ids`` named
    for an unknown id; ``texts``: the fixed texts of citations, recalls and notices. ``store`` is a store
    that outlives the episode; None: a fresh one in memory. ``trigger``: ``reactive`` compacts when the loop
    asks (the paper's evaluation), ``proactive`` also by itself, once the view takes more than
    ``proactive_share`` of the usable window.
    """

    places: ClassVar[Mapping[str, tuple[str, ...]]] = PLACES
    """The fixed texts and the places that each must have."""

    def __init__(
        self,
        *,
        id: str,
        promise: str,
        variant: str | None,
        preview_chars: int,
        thought_chars: int,
        signature_chars: int,
        recalls_per_step: int,
        nearest_ids: int,
        trigger: str,
        proactive_share: float,
        actions: Mapping[str, Mapping[str, str]],
        texts: Mapping[str, str],
        bench: Workbench,
        store: Store | None = None,
    ) -> None:
        super().__init__(id=id, promise=promise, bench=bench)
        self.variant = variant
        self.preview_chars = whole("method.preview_chars", preview_chars, 1)
        self.thought_chars = whole("method.thought_chars", thought_chars, 1)
        self.signature_chars = whole("method.signature_chars", signature_chars, 1)
        self.recalls_per_step = whole("method.recalls_per_step", recalls_per_step, 1)
        self.nearest_ids = whole("method.nearest_ids", nearest_ids, 1)
        self.proactive = one_of("method.trigger", trigger, ("reactive", "proactive")) == "proactive"
        self.proactive_tokens = share("method.proactive_share", proactive_share) * bench.budget.usable_tokens
        for key in texts:
            one_of("method.texts", key, self.places)
        self.texts = {key: template(f"method.texts.{key}", texts.get(key), *self.places[key]) for key in self.places}
        self.docs = documented(actions, ACTIONS)
        self.store = Store() if store is None else store
        self.recalled = Recalled(bench.budget.recall_budget_chars)
        self.recalls_this_step = 0
        self._turns: dict[int, Turn] = {}  # in the view, by index; oldest first
        self.records: dict[int, Record] = {}  # turn index -> what it observed
        self.recall_turns: dict[str, tuple[int, Record]] = {}  # what was recalled -> turn index that shows it
        self.shown: dict[int, tuple[Message, Message]] = {}  # turn index -> what stands for its reply and result
        self.full_citations: deque[int] = deque()  # turn indices, oldest first
        self._answering: tuple[str, Record, int] | None = None  # what, of which record, its characters in view

    # ---------------------------------------------------------------------------------------- view

    @property
    def turns(self) -> Sequence[Turn]:
        """The turns in the view, oldest first."""
        return list(self._turns.values())

    def view(self) -> Sequence[Message]:
        """The prefix, and every turn whole or as what stands for it."""
        view = list(self.prefix)
        for turn in self._turns.values():
            view.extend(self.shown.get(turn.index, (turn.reply, turn.result)))
        return view

    async def observe(self, turn: Turn) -> Done | None:
        """Store what the environment answered before anything can remove it."""
        self._turns[turn.index] = turn
        if turn.answered_by == "environment":
            self.recalls_this_step = 0
            if not turn.observation.restored:
                body, code = turn.observation.text, turn.observation.returncode
                self.records[turn.index] = self.store.add(signature_of(turn), body, returncode=code, step=turn.index)
        elif self._answering is not None:
            self._show_recalled(*self._answering, turn.index)
            self._answering = None
        if self.proactive and self.bench.count(self.view()) > self.proactive_tokens:
            return await self.compact("overflow")
        return None

    # -------------------------------------------------------------------------------------- recall

    def actions(self) -> Sequence[ActionDoc]:
        """Recall of a body, and of its citation only."""
        return self.docs

    async def handle(self, action: Action) -> Observation:
        """Answer a recall from the store alone. Exactly one id; anything else does nothing and says so."""
        record = self.find(action.name, action.argument)
        if isinstance(record, Observation):
            return record
        if action.name == "_recall_meta":
            return Observation(self._meta(record))
        form = "recalled_excerpt" if record.chars > self.bench.budget.recall_max_chars else "recalled"
        note = fill(
            self.texts[form], id=record.id, signature=cut(record.signature, self.signature_chars), chars=record.chars
        )
        return self.give(record, record.id, record.body, note)

    def find(self, action: str, text: str) -> Record | Observation:
        """The record that ``text`` names as its one id, or the notice that says why there is none."""
        id = normal_id(text)
        if id is None:
            return Observation(fill(self.texts["bad_id"], action=action), returncode=2)
        record = self.store.get(id)
        if record is None:
            near = ", ".join(f"§{other}" for other in self.store.nearest(id, self.nearest_ids))
            return Observation(fill(self.texts["unknown_id"], id=id, nearest=near or "none"), returncode=1)
        return record

    def give(self, record: Record, what: str, body: str, note: str) -> Observation:
        """Hand back a record's body, or the part of it that ``what`` names, unless that is one recall too many."""
        if self.recalls_this_step >= self.recalls_per_step:
            return Observation(fill(self.texts["too_many"], limit=self.recalls_per_step), returncode=1)
        self.recalls_this_step += 1
        self.store.count_recall(record)
        limit = self.bench.budget.recall_max_chars
        self._answering = (what, record, min(len(body), limit))
        self.bench.note("recall", id=record.id, chars=len(body), excerpt=len(body) > limit)
        return Observation(body, record.returncode, note=note, restored=True)

    def _show_recalled(self, what: str, record: Record, chars: int, index: int) -> None:
        """A body came into view at turn ``index``: the bodies that it displaces go back to their citations."""
        displaced = [what] if what in self.recall_turns else []
        displaced += self.recalled.use(what, chars)
        for gone in displaced:
            at, other = self.recall_turns.pop(gone)
            self.shown[at] = self._bare(self._turns[at], other)
        self.recall_turns[what] = index, record

    # ---------------------------------------------------------------------------------- compaction

    async def compact(self, reason: Literal["forced", "overflow"]) -> Done:
        """Cite what is old; then, where that is not enough, shrink and evict down to ``compact_to_tokens``."""
        before, held = self.turns, {index for index, _ in self.recall_turns.values()}
        # a recall whose body has left repeats a citation that stands elsewhere in the view
        self._turns = {t.index: t for t in before if t.index not in self.shown or t.index in self.records}
        verbatim = [turn for turn in self._turns.values() if turn.index not in self.shown and turn.index not in held]
        divided = split(verbatim, bench=self.bench, reason=reason, fixed=self.prefix)
        for turn in (*divided.older, *divided.inline):
            self._retire(turn)
        excess = self._shrink()
        if reason == "overflow":
            self._give_up(excess, divided.recent)
        self._note_citations()
        return Done(self._fates(before, held))

    def _retire(self, turn: Turn) -> None:
        """An older turn: its thought is cut; a long observation leaves for its citation, a short one may
        stay; a turn that observed nothing (a correction, a notice, an answered recall) just goes."""
        record = self.records.get(turn.index)
        if record is None:
            self._drop(turn)
            return
        result = turn.result
        if record.chars > self.bench.budget.keep_verbatim_chars:
            result = Message("user", self._citation(record, "cited"))
            self.full_citations.append(turn.index)
        self.shown[turn.index] = (shortened(turn.reply, self.thought_chars, self.signature_chars), result)

    def _drop(self, turn: Turn) -> int:
        """Take a turn out of the view; how many tokens that saves."""
        del self._turns[turn.index]
        return weigh(self.bench, turn)

    def _shrink(self) -> int:
        """Each oldest first until the view is in budget: full citations to bare ones, then short observations
        to bare citations. Returns the tokens that are still too many."""
        excess = self.bench.count(self.view()) - self.bench.budget.compact_to_tokens
        view = self._turns.items()
        short = deque(index for index, turn in view if self.shown.get(index, (None, None))[1] is turn.result)
        while excess > 0 and (self.full_citations or short):
            index = self.full_citations.popleft() if self.full_citations else short.popleft()
            excess -= self._show_bare(index, self.records[index])
        return excess

    def _give_up(self, excess: int, recent: Sequence[Turn]) -> None:
        """On a real overflow, all but the newest turn go, while there is an excess: recalled bodies, least
        recently used first, then recent turns, oldest first."""
        newest = next(reversed(self._turns.values()), None)
        for id in self.recalled.ids():
            turn = self._turns[self.recall_turns[id][0]]
            if excess > 0 and turn is not newest:
                self.recalled.remove(id)
                del self.recall_turns[id]
                excess -= self._drop(turn)
        for turn in recent:
            if excess > 0 and turn is not newest:
                if turn.index in self.records:
                    excess -= self._show_bare(turn.index, self.records[turn.index])
                else:
                    excess -= self._drop(turn)

    def _show_bare(self, index: int, record: Record) -> int:
        """Show a turn's result as a bare citation, unless that is longer; how many tokens it saves."""
        turn = self._turns[index]
        now, bare = self.shown.get(index, (turn.reply, turn.result)), self._bare(turn, record)
        saved = self.bench.count(now) - self.bench.count(bare)
        if saved > 0:
            self.shown[index] = bare
        return max(saved, 0)

    def _bare(self, turn: Turn, record: Record) -> tuple[Message, Message]:
        return shortened(turn.reply, self.thought_chars, self.signature_chars), Message(
            "user", self._citation(record, "cited_bare")
        )

    def _note_citations(self) -> None:
        """For the record: what the citations in view take, against what they stand for and what the store holds."""
        stored = [turn for turn in self._turns.values() if turn.index in self.shown and turn.index in self.records]
        cited = [(turn, self.shown[turn.index]) for turn in stored if self.shown[turn.index][1] is not turn.result]
        full = set(self.full_citations)
        weight = self.bench.count
        frame = weight(())
        hint = self.bench.count_text(fill(self.texts["hint"], id=ID_CHARS * "0"))
        records = {record.id: record for record in self.records.values()}
        self.bench.note(
            "citations",
            cited=len(cited),
            full=len(full),
            tokens=sum(weight((shown[1],)) - frame for _, shown in cited),
            replaced_tokens=sum(weight((turn.result,)) - frame for turn, _ in cited),
            # most are bare by now: only what is not is made bare for this
            bare_tokens=sum(
                weight(self._bare(turn, self.records[turn.index]) if turn.index in full else shown) - frame
                for turn, shown in cited
            ),
            hint_tokens=hint * len(full),
            archive_chars=sum(r.chars + len(r.signature) + len(r.id) for r in records.values()),
            payload_chars=sum(record.chars for record in self.records.values()),
        )

    def _fates(self, before: Sequence[Turn], held: Set[int]) -> dict[Part, Fate]:
        still = self._turns.keys()
        fates: dict[Part, Fate] = {}
        for turn in before:
            result = self.shown.get(turn.index, (turn.reply, turn.result))[1]
            fates[turn.index, "reply"] = "kept" if turn.index in still else "dropped"
            if turn.index in still:
                fates[turn.index, "result"] = "kept" if result is turn.result else "cited"
            else:  # the body of a recall is cited where it was first observed
                fates[turn.index, "result"] = "cited" if turn.index in held else "dropped"
        return fates

    # --------------------------------------------------------------------------------------- texts

    def _citation(self, record: Record, form: str) -> str:
        """``cited`` (with previews) or ``cited_bare``. An id once shown is never renamed or described anew."""
        if form == "cited_bare":
            return fill(self.texts[form], id=record.id, signature=cut(record.signature, self.signature_chars))
        head = record.body[: self.preview_chars]
        tail = record.body[max(len(head), record.chars - self.preview_chars) :]
        return fill(
            self.texts[form],
            id=record.id,
            signature=cut(record.signature, self.signature_chars),
            chars=record.chars,
            returncode=record.returncode,
            head=head,
            tail=tail,
            hint=fill(self.texts["hint"], id=record.id),
        )

    def _meta(self, record: Record) -> str:
        return fill(
            self.texts["meta"],
            citation=self._citation(record, "cited"),
            steps=", ".join(str(step + 1) for step in record.steps),
            recalls=record.recalls,
        )
