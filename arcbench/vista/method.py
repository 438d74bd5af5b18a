"""VISTA: the agent sees the state of its own context and decides what leaves it (VISTA, Section 2; Algorithm 1)."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Literal

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
    Pending,
    Turn,
    Workbench,
)
from arcbench.vista import workspace
from arcbench.vista.blocks import Block, Handle, Unit, blocks_of, place, spans
from arcbench.vista.dashboard import FORMS, Dashboard
from arcbench.vista.workspace import Refused, Workspace

ACTIONS = ("archive", "delete", "board")
PROMISES = ("files", "handles", "nothing")
PLACES: Mapping[str, tuple[str, ...]] = {
    **workspace.PLACES,
    "overflow": ("excess", "actions"),
    "only": ("actions",),
    "archived": ("id", "blocks", "level", "freed", "where"),
    "removed": ("blocks", "freed"),
    "merged": (),
    "rejected": ("what", "tokens", "room"),
    "board": ("text",),
    "board_set": ("chars",),
    "board_usage": ("limit",),
    "archive_usage": (),
    "delete_usage": (),
    "damaged": ("path",),
    "no_targets": (),
    "bad_target": ("target",),
    "backwards": ("range",),
    "unknown": ("id", "last"),
    "pinned": ("id",),
    "was_deleted": ("id",),
    "already": ("id",),
    "member": ("id", "group"),
    "no_gain": ("before", "after"),
}
_ARGUMENT = re.compile(r"""(?P<targets>[^"']*)(?P<quote>["'])(?P<text>.*)(?P=quote)\s*""", re.S)
_QUOTING = re.compile(r"""["'\\]""")
Reason = Literal["forced", "overflow"]


class Vista(Method):
    """The agent archives and deletes blocks itself and reads them back as files; a guard acts when it does not.

    On a real overflow the guard first offloads raw results, in the order ``guard``. Where that does not bring
    the view down to ``compact_to_tokens``, and at a forced compaction while the raw blocks take more than
    ``keep_recent_tokens``, the agent is in *overflow mode*: it sees the task, one line per block and the
    dashboard, and nothing but archive and delete is carried out. After ``overflow_calls`` such calls the guard
    finishes the job.

    Parameters (``conf/method/vista.yaml``): ``promise`` by what can be got back; ``dashboard``: ``full``,
    ``folded`` or ``none``; ``recovery``: whether what is archived can be read below ``/archive/``; ``archive``:
    whether there is any archive (else the agent can only delete, and the guard deletes); ``delete``: whether the
    agent may delete; ``control``: ``agent``, or ``rule`` (a static rule offloads the oldest blocks; the agent can
    only read them back); ``board``: whether the agent keeps a text above the dashboard, of at most
    ``board_chars``; ``reject``: what becomes of a result for which no room can be made, ``store`` (a placeholder
    stands for it) or ``discard``; ``preview_chars`` of a block in placeholders and stubs, ``command_chars`` of the
    command that belongs to it; ``rubric``: the instructions, of which each part is there with what it explains;
    ``actions``, ``texts`` and ``status`` (the dashboard): their words.
    """

    def __init__(
        self,
        *,
        id: str,
        promise: Mapping[str, str],
        variant: str | None,
        dashboard: str,
        recovery: bool,
        archive: bool,
        delete: bool,
        control: str,
        board: bool,
        guard: str,
        reject: str,
        overflow_calls: int,
        preview_chars: int,
        command_chars: int,
        board_chars: int,
        rubric: Mapping[str, str],
        actions: Mapping[str, Mapping[str, str]],
        texts: Mapping[str, str],
        status: Mapping[str, str],
        bench: Workbench,
    ) -> None:
        for key in promise:
            one_of("method.promise", key, PROMISES)
        kept = "nothing" if not archive else "files" if recovery else "handles"
        promised = template(f"method.promise.{kept}", promise.get(kept))
        super().__init__(id=id, promise=promised, bench=bench)
        self.variant = variant
        self.form = one_of("method.dashboard", dashboard, (*FORMS, "none"))
        self.agent_acts = one_of("method.control", control, ("agent", "rule")) == "agent"
        self.largest_first = one_of("method.guard", guard, ("largest_first", "oldest_first")) == "largest_first"
        self.store_rejected = one_of("method.reject", reject, ("store", "discard")) == "store"
        for key, value in (("recovery", recovery), ("archive", archive), ("delete", delete), ("board", board)):
            if not isinstance(value, bool):
                raise ConfigError(f"method.{key}={value}: must be true or false")
        if board and self.form == "none":
            raise ConfigError("method.board=true: must be false with method.dashboard=none, which would not show it")
        if self.agent_acts and not archive and not delete:
            raise ConfigError("method.delete=false: must be true with method.archive=false, or nothing can be done")
        self.archives = archive
        self.overflow_calls = whole("method.overflow_calls", overflow_calls, 1)
        self.board_chars = whole("method.board_chars", board_chars, 1)
        for key in texts:
            one_of("method.texts", key, PLACES)
        self.texts = {key: template(f"method.texts.{key}", texts.get(key), *PLACES[key]) for key in PLACES}
        self.dashboards = {form: Dashboard(form=form, texts=status, key="method.status") for form in FORMS}
        offered = {"archive": archive and self.agent_acts, "delete": delete and self.agent_acts, "board": board}
        own = [name for name in ACTIONS if offered[name]]
        self.docs = [doc for doc in documented(actions, ACTIONS) if doc.name in own]
        said = {
            "dashboard": self.form != "none",
            "criteria": self.agent_acts,
            "archive": offered["archive"],
            "recovery": recovery and archive,
            "delete": offered["delete"],
            "board": board,
        }
        for key in rubric:
            one_of("method.rubric", key, said)
        parts = [template(f"method.rubric.{key}", rubric.get(key)) for key in said if said[key]]
        self.promise = "\n".join([promised, *parts])
        self.workspace = Workspace(
            weigh=lambda message: bench.count((message,)) - bench.count(()),
            recoverable=recovery and archive,
            preview_chars=whole("method.preview_chars", preview_chars, 1),
            command_chars=whole("method.command_chars", command_chars, 1),
            texts=self.texts,
        )
        self._allowed = [name for name in own if name != "board"]
        self._mode: Reason | None = None  # overflow mode, and what it came from
        self._mode_calls = 0
        self._newest = (-1, -1)  # indices of the newest turn, and of the newest that the environment answered
        self._text_on_board = ""
        self._own_tokens = 0  # of the dashboard, when it was last composed
        self._moved: dict[Part, Fate] = {}  # what left the view and is not reported yet
        self._freed = 0  # tokens that this saved
        self._working: list[Message] | None = None
        self._shown: list[Message] | None = None

    # ---------------------------------------------------------------------------------------- view

    def begin(self, prefix: tuple[Message, ...]) -> NoAnswer | None:
        """The task message becomes the first block; what stands before it is overhead."""
        super().begin(prefix)
        self.workspace.begin(prefix[-1])
        return None if self._fits() else "prefix_too_large"

    def view(self) -> Sequence[Message]:
        """The task, every block or what stands for it, the dashboard; in overflow mode one line per block."""
        if self._shown is None:
            self._shown = self._overflow_view() if self._mode else self._working_view()
        return self._shown

    def waiting(self) -> bool:
        """Whether the agent must make room before anything else happens."""
        return self._mode is not None

    def _working_view(self) -> list[Message]:
        if self._working is None:
            self._working = [*self.prefix, *self.workspace.layout().messages, *self._dashboard()]
        return self._working

    def _overflow_view(self) -> list[Message]:
        """The management view: all of the ledger and nothing whole. Where even the lines of the blocks have no
        room, only the handles stand there."""
        notice = fill(self.texts["overflow"], excess=max(1, self._excess(self._mode)), actions=self._names())
        # the dashboard is the whole workspace's in both views, so it is composed once
        end = (Message("user", notice), *(self._working_view()[-1:] if self.form != "none" else ()))
        view = [*self.prefix, *self.workspace.stubs(), *end]
        if self.bench.count(view) <= self.bench.budget.usable_tokens:
            return view
        layout = self.workspace.layout()
        handles = [m for m, unit in zip(layout.messages, layout.units, strict=True) if isinstance(unit, Handle)]
        return [*self.prefix, *handles, *end]

    def _dashboard(self) -> tuple[Message, ...]:
        """One message, made anew after each change and kept nowhere."""
        if self.form == "none":
            return ()
        message, self._own_tokens = self.dashboards[self.form].compose(
            self.workspace.rows(),
            overhead=self.bench.count(self.prefix[:-1]),
            total=self.bench.budget.usable_tokens,
            weigh=self.workspace.weigh,
            board=fill(self.texts["board"], text=self._text_on_board) if self._text_on_board else "",
            guess=self._own_tokens,
        )
        return (message,)

    def _fits(self) -> bool:
        return self.bench.count(self.view()) <= self.bench.budget.usable_tokens

    def _changed(self) -> None:
        self._working = self._shown = None

    # ------------------------------------------------------------------------------------- observe

    async def observe(self, turn: Turn) -> Done | None:
        """Two more blocks. In overflow mode: see whether the agent made room, and let the guard do the rest once the
        agent had its calls, or has nothing left to move."""
        self.workspace.add(turn)
        self._newest = (turn.index, turn.index if turn.answered_by == "environment" else self._newest[1])
        self._changed()
        if self._mode is not None:
            self._mode_calls += 1
            reason, left = self._mode, self._excess(self._mode)
            if left <= 0 or self._mode_calls >= self.overflow_calls or not self._loose() or not self._fits():
                self._set_mode(None)
                if left > 0:
                    self._finish(reason)
        size, freed = self.bench.count(self._working_view()), self._freed
        if self.form != "none":
            rows = self.workspace.rows()
            away = sum(row.away for row in rows)
            self.bench.note("dashboard", form=self.form, blocks=len(rows), away=away, tokens=self._own_tokens)
        return Done(self._report(), sizes=(size + freed, size)) if self._moved or freed else None

    # ------------------------------------------------------------------------------------- actions

    def actions(self) -> Sequence[ActionDoc]:
        """Archive, delete and the board, as far as there are any."""
        return self.docs

    def gate(self, action: Action) -> Observation | None:
        """Overflow mode carries out nothing but making room; a file whose bytes changed is not read."""
        if self._mode is not None and action.name not in self._allowed:
            return Observation(fill(self.texts["only"], actions=self._names()), returncode=1)
        if action.name not in ACTIONS:
            plain = _QUOTING.sub("", action.text)
            for path, file in self.workspace.files.items():
                if path.rpartition("/")[2] in plain and not file.intact:
                    return Observation(fill(self.texts["damaged"], path=path), returncode=1)
        return None

    async def handle(self, action: Action) -> Observation:
        """Archive or delete all that is named, or nothing, and say so; or keep a text on the board."""
        argument = _ARGUMENT.fullmatch(action.argument)
        text = " ".join(argument["text"].split()) if argument else ""
        if action.name == "board":
            return self._set_board(text if argument and not argument["targets"].strip() else "")
        if argument is None or not text:
            return Observation(self.texts[f"{action.name}_usage"], returncode=2)
        before = self.workspace.in_view
        try:
            units = self.workspace.resolve(argument["targets"])
            blocks = sorted_blocks(units)
            raw = [block for block in blocks if block.raw]
            made = None
            if action.name == "archive":
                made = self.workspace.archive(units, text)
            else:
                self.workspace.delete(units)
        except Refused as refused:
            return Observation(fill(self.texts[refused.notice], **refused.values), returncode=1)
        fate: Fate = "archived" if made is not None and self.workspace.recoverable else "dropped"
        freed = self._account(before, raw, fate)
        handle = {} if made is None else {"handle": made.id}
        self.bench.note(action.name, blocks=[block.id for block in blocks], freed=freed, text=text, **handle)
        if made is None:
            return Observation(fill(self.texts["removed"], blocks=spans(blocks), freed=freed))
        where = self.workspace.where(made)
        return Observation(
            fill(self.texts["archived"], id=made.id, blocks=spans(blocks), level=made.level, freed=freed, where=where)
        )

    def _set_board(self, text: str) -> Observation:
        if not text or len(text) > self.board_chars:
            return Observation(fill(self.texts["board_usage"], limit=self.board_chars), returncode=2)
        self._text_on_board = text
        self._changed()
        return Observation(fill(self.texts["board_set"], chars=len(text)))

    def mounts(self) -> Mapping[str, str]:
        """What is archived, as files."""
        return {path: file.text for path, file in self.workspace.files.items()}

    def _names(self) -> str:
        return " or ".join(f"`{name}`" for name in self._allowed)

    # --------------------------------------------------------------------------------- making room

    async def compact(self, reason: Reason) -> Done | Pending | Nothing:
        """Forced: the agent is asked. On a real overflow the guard acts first (Algorithm 1, line 3). Where the agent
        has no say, or not even its management view fits, the guard does all of it."""
        if self._mode is not None:
            if reason == "forced":
                return Pending()
            self._set_mode(None)
        elif reason == "forced" and self.agent_acts and self._excess(reason) <= 0:
            return Done(self._report())
        elif (reason == "forced" or not self._relieve(reason, self._candidates())) and self._enter_mode(reason):
            return Pending()
        self._finish(reason)
        return Done(self._report()) if self._moved or self._fits() else Nothing()

    def _excess(self, reason: Reason | None) -> int:
        """Tokens that must still leave the view. Forced: also so many that the raw blocks take no more than
        the recent turns of other methods may; which ones stay is the agent's choice."""
        budget = self.bench.budget
        excess = self.bench.count(self._working_view()) - budget.compact_to_tokens
        if reason == "forced":
            raw = sum(block.tokens for block in self.workspace.raw() if not block.managed)
            excess = max(excess, raw - budget.keep_recent_tokens)
        return excess

    def _set_mode(self, reason: Reason | None) -> None:
        self._mode, self._mode_calls, self._shown = reason, 0, None

    def _enter_mode(self, reason: Reason) -> bool:
        """Overflow mode, where there is somebody to act, something to act on, and room to show it."""
        if not self.agent_acts or not self._loose():
            return False
        self._set_mode(reason)
        if not self._fits():
            self._set_mode(None)
        return self._mode is not None

    def _older(self) -> list[Block]:
        """The blocks in the view as they were, but for the newest turn and the newest answer of the environment,
        which the agent may not have seen yet."""
        return [b for b in self.workspace.raw() if b.part is not None and b.part[0] not in self._newest]

    def _loose(self) -> bool:
        """Whether any block is left whose move would save something."""
        return any(self.workspace.would_save(block) > 0 for block in self._older())

    def _candidates(self) -> list[Block]:
        """What the guard may take, in its order: older raw results; with a static rule any older block."""
        if not self.agent_acts:
            return self._older()
        results = [block for block in self._older() if block.type == "tool_result"]
        if self.largest_first:  # of two of a size the newer
            results.sort(key=lambda block: (block.tokens, place(block)), reverse=True)
        return results

    def _relieve(self, reason: Reason, blocks: Sequence[Block]) -> bool:
        """Take blocks out of the view, in order, until nothing is in excess; whether that was reached."""
        excess = self._excess(reason)
        for block in blocks:
            if excess <= 0:
                break
            if self._take(block):
                excess = self._excess(reason)
        return excess <= 0

    def _finish(self, reason: Reason) -> None:
        """The guard's last word: results, then other blocks. What still does not fit then: fold the dashboard,
        put all that is older behind one handle, and last of all the newest turn."""
        if self._relieve(reason, self._candidates()):
            return
        if self._relieve(reason, self._older()) or self._fits():
            return
        if self.form == "full":
            self.form = "folded"
            self.bench.note("dashboard_folded")
            self._changed()
        if not self._fits():
            self._clear()
        for block in sorted(self.workspace.raw(), key=lambda block: -block.tokens):
            if not self._fits():
                self._reject(block)

    def _clear(self) -> None:
        """All that is older at once: also blocks that are no larger than a line that would stand for each."""
        before, older = self.workspace.in_view, self._older()
        units: list[Unit] = [*self.workspace.handles.values(), *older]
        units.sort(key=place)
        if not self.archives:
            self.workspace.delete(older)
        elif len(units) > 1:
            try:
                self.workspace.archive(units, self.texts["merged"])
            except Refused:  # one line for all is no smaller than the lines of each
                return
        else:
            return
        freed = self._account(before, older, "archived" if self.workspace.recoverable else "dropped")
        self.bench.note("guard_cleared", blocks=[block.id for block in older], freed=freed)

    def _reject(self, block: Block) -> None:
        """There is no room for one of the newest blocks."""
        if self.store_rejected or not self.archives or block.type != "tool_result":
            self._take(block)
            return
        room, before = self.bench.budget.usable_tokens, self.workspace.in_view
        line = fill(self.texts["rejected"], what=block.what, tokens=block.tokens, room=room)
        notice = Message("user", line)
        if self.workspace.weigh(notice) < block.tokens:
            self.bench.note("rejected", block=block.id, tokens=block.tokens)
            self.workspace.discard(block, notice)
            self._account(before, [block], "dropped")

    def _take(self, block: Block) -> bool:
        """The guard moves one block out of the view, or deletes it where there is no archive; whether it did."""
        before = self.workspace.in_view
        if self.archives:
            taken = self.workspace.offload(block)
        elif taken := self.workspace.deletable(block):
            self.workspace.delete([block])
        if taken:
            fate: Fate = "archived" if self.workspace.recoverable else "dropped"
            freed = self._account(before, [block], fate)
            self.bench.note("guard", block=block.id, freed=freed)
        return bool(taken)

    def _account(self, before: int, blocks: Sequence[Block], fate: Fate) -> int:
        """Note for the next report what left the view; how many tokens that saved."""
        freed = before - self.workspace.in_view
        self._freed += freed
        self._moved |= {block.part: fate for block in blocks if block.part is not None}
        self._changed()
        return freed

    def _report(self) -> dict[Part, Fate]:
        """Where the messages of the view went since the last report."""
        fates: dict[Part, Fate] = {block.part: "kept" for block in self.workspace.raw() if block.part is not None}
        fates |= self._moved
        self._moved, self._freed = {}, 0
        return fates


def sorted_blocks(units: Sequence[Unit]) -> list[Block]:
    """The blocks of all units, in order of arrival."""
    return sorted((block for unit in units for block in blocks_of(unit)), key=place)
