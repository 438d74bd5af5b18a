"""ARC as its paper evaluates it (Proposed Method; Appendix B): cite old observations, recall them by id."""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from typing import Literal

from arcbench.arc.recalled import Recalled
from arcbench.arc.replies import shortened, signature_of
from arcbench.arc.store import Record, Store, normal_id
from arcbench.checks import one_of, template, whole
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

_PLACES = {
    "cited": ("id", "signature", "chars", "returncode", "head", "tail"),
    "cited_bare": ("id", "signature"),
    "recalled": ("id", "signature", "chars"),
    "recalled_excerpt": ("id", "signature", "chars"),
    "meta": ("citation", "steps", "recalls"),
    "bad_id": ("action",),
    "unknown_id": ("id", "nearest"),
    "too_many": ("limit",),
}


class Arc(Method):
    """Addressable Recall Compaction, first reading of DESIGN 5.1 (`arc`).

    Every environment observation is stored whole under a short id. Compaction calls no model: older
    long observations become citations in place, older thoughts are truncated, recent turns stay. The
    agent recalls by id; a body longer than ``recall_max_chars`` comes back as a head+tail excerpt.

    Parameters (``conf/method/arc.yaml``): ``preview_chars`` of head and of tail in a citation;
    ``thought_chars`` kept of an older thought; ``recalls_per_step`` (r, paper: 2); ``nearest_ids`` named
    for an unknown id; ``texts``: the fixed texts of citations, recalls and notices.
    """

    def __init__(
        self,
        *,
        id: str,
        promise: str,
        variant: str | None,
        preview_chars: int,
        thought_chars: int,
        recalls_per_step: int,
        nearest_ids: int,
        actions: Mapping[str, Mapping[str, str]],
        texts: Mapping[str, str],
        bench: Workbench,
    ) -> None:
        super().__init__(id=id, promise=promise, bench=bench)
        self.variant = variant
        self.preview_chars = whole("method.preview_chars", preview_chars, 1)
        self.thought_chars = whole("method.thought_chars", thought_chars, 1)
        self.recalls_per_step = whole("method.recalls_per_step", recalls_per_step, 1)
        self.nearest_ids = whole("method.nearest_ids", nearest_ids, 1)
        for key in texts:
            one_of("method.texts", key, _PLACES)
        self.texts = {key: template(f"method.texts.{key}", texts.get(key), *_PLACES[key]) for key in _PLACES}
        self.docs = tuple(ActionDoc(name, doc["usage"], doc["help"]) for name, doc in actions.items())
        self.store = Store()
        self.recalled = Recalled(bench.budget.recall_budget_chars)
        self.recalls_this_step = 0
        self.turns: list[Turn] = []
        self.records: dict[int, Record] = {}  # turn index -> what it observed
        self.recall_turns: dict[str, int] = {}  # id -> turn index that shows its body
        self.shown: dict[int, tuple[Message, Message]] = {}  # turn index -> what stands for its reply and result
        self.full_citations: list[int] = []  # turn indices, oldest first
        self._answering: str | None = None

    # ---------------------------------------------------------------------------------------- view

    def view(self) -> Sequence[Message]:
        """The prefix, and every turn whole or as what stands for it."""
        view = list(self.prefix)
        for turn in self.turns:
            view.extend(self.shown.get(turn.index, (turn.reply, turn.result)))
        return view

    async def observe(self, turn: Turn) -> Done | None:
        """Store what the environment answered before anything can remove it."""
        self.turns.append(turn)
        if turn.answered_by == "environment":
            self.recalls_this_step = 0
            if not turn.observation.restored:
                body, code = turn.observation.text, turn.observation.returncode
                self.records[turn.index] = self.store.add(signature_of(turn), body, returncode=code, step=turn.index)
        elif self._answering is not None:
            self._show_recalled(self._answering, turn)
            self._answering = None
        return None

    # -------------------------------------------------------------------------------------- recall

    def actions(self) -> Sequence[ActionDoc]:
        """Recall of a body, and of its citation only."""
        return self.docs

    async def handle(self, action: Action) -> Observation:
        """Answer a recall from the store alone. Exactly one id; anything else does nothing and says so."""
        id = normal_id(action.argument)
        if id is None:
            return Observation(fill(self.texts["bad_id"], action=action.name), returncode=2)
        record = self.store.get(id)
        if record is None:
            near = ", ".join(f"§{other}" for other in self.store.nearest(id, self.nearest_ids))
            return Observation(fill(self.texts["unknown_id"], id=id, nearest=near or "none"), returncode=1)
        if action.name == "_recall_meta":
            return Observation(self._meta(record))
        if self.recalls_this_step >= self.recalls_per_step:
            return Observation(fill(self.texts["too_many"], limit=self.recalls_per_step), returncode=1)
        self.recalls_this_step += 1
        record.recalls += 1
        self._answering = record.id
        limit = self.bench.budget.recall_max_chars
        kind = "recalled_excerpt" if record.chars > limit else "recalled"
        self.bench.note("recall", id=record.id, chars=record.chars, excerpt=record.chars > limit)
        note = fill(self.texts[kind], id=record.id, signature=record.signature, chars=record.chars)
        return Observation(record.body, record.returncode, note=note, restored=True)

    def _show_recalled(self, id: str, turn: Turn) -> None:
        """A body came into view at ``turn``: the bodies that it displaces go back to their citations."""
        displaced = [id] if id in self.recall_turns else []
        displaced += self.recalled.use(id, self._chars_in_view(self.store[id]))
        for gone in displaced:
            index, record = self.recall_turns.pop(gone), self.store[gone]
            self.shown[index] = self._bare(self._turn(index), record)
        self.recall_turns[id] = turn.index

    def _chars_in_view(self, record: Record) -> int:
        return min(record.chars, self.bench.budget.recall_max_chars)

    # ---------------------------------------------------------------------------------- compaction

    async def compact(self, reason: Literal["forced", "overflow"]) -> Done:
        """Cite what is old; then, where that is not enough, shrink and evict down to ``compact_to_tokens``."""
        before, held = self.turns, set(self.recall_turns.values())
        # a recall whose body has left repeats a citation that stands elsewhere in the view
        self.turns = [turn for turn in before if turn.index not in self.shown or turn.index in self.records]
        verbatim = [turn for turn in self.turns if turn.index not in self.shown and turn.index not in held]
        divided = split(verbatim, bench=self.bench, reason=reason, fixed=self.prefix)
        for turn in (*divided.older, *divided.inline):
            self._retire(turn)
        excess = self._shrink()
        if reason == "overflow":
            self._give_up(excess, divided.recent)
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
        self.shown[turn.index] = (shortened(turn.reply, self.thought_chars), result)

    def _drop(self, turn: Turn) -> int:
        """Take a turn out of the view; how many tokens that saves."""
        self.turns = [other for other in self.turns if other is not turn]
        return weigh(self.bench, turn)

    def _shrink(self) -> int:
        """Each oldest first until the view is in budget: full citations to bare ones, then short observations
        to bare citations. Returns the tokens that are still too many."""
        excess = self.bench.count(self.view()) - self.bench.budget.compact_to_tokens
        short = [turn.index for turn in self.turns if self.shown.get(turn.index, (None, None))[1] is turn.result]
        while excess > 0 and (self.full_citations or short):
            index = self.full_citations.pop(0) if self.full_citations else short.pop(0)
            excess -= self._show_bare(index, self.records[index])
        return excess

    def _give_up(self, excess: int, recent: Sequence[Turn]) -> None:
        """On a real overflow, all but the newest turn go, while there is an excess: recalled bodies, least
        recently used first, then recent turns, oldest first."""
        newest = self.turns[-1] if self.turns else None
        for id in self.recalled.ids():
            turn = self._turn(self.recall_turns[id])
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
        turn = self._turn(index)
        now, bare = self.shown.get(index, (turn.reply, turn.result)), self._bare(turn, record)
        saved = self.bench.count(now) - self.bench.count(bare)
        if saved > 0:
            self.shown[index] = bare
        return max(saved, 0)

    def _bare(self, turn: Turn, record: Record) -> tuple[Message, Message]:
        return shortened(turn.reply, self.thought_chars), Message("user", self._citation(record, "cited_bare"))

    def _turn(self, index: int) -> Turn:
        return next(turn for turn in self.turns if turn.index == index)

    def _fates(self, before: Sequence[Turn], held: Set[int]) -> dict[Part, Fate]:
        still = {turn.index for turn in self.turns}
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
            return fill(self.texts[form], id=record.id, signature=record.signature)
        head = record.body[: self.preview_chars]
        tail = record.body[len(head) :][-self.preview_chars :]
        return fill(
            self.texts[form],
            id=record.id,
            signature=record.signature,
            chars=record.chars,
            returncode=record.returncode,
            head=head,
            tail=tail,
        )

    def _meta(self, record: Record) -> str:
        return fill(
            self.texts["meta"],
            citation=self._citation(record, "cited"),
            steps=", ".join(str(step + 1) for step in record.steps),
            recalls=record.recalls,
        )
