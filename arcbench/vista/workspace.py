"""The typed, addressable blocks of a conversation, and the archive behind them (VISTA, Sections 2.1 and 2.3).

Every message is one block: ``B1`` is the task, then each reply and each answer in order of arrival. A block
keeps its id and its place. Archived, it is shown by a handle; several blocks archived together share one
(``G1``, ``G2``, ...). What was shown goes, whole, to a file below ``/archive/``, one for each handle. Handles
can be archived again: the new file then holds them as they stood, and theirs stay readable.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence

from arcbench.text import fill
from arcbench.types import Message, Part, Turn
from arcbench.vista.blocks import (
    Away,
    Block,
    File,
    Handle,
    Layout,
    Unit,
    blocks_of,
    names,
    one_line,
    place,
    sha256,
    spans,
    status_of,
)
from arcbench.vista.dashboard import BlockType, Row

FOLDER = "/archive/"
PLACES: Mapping[str, tuple[str, ...]] = {
    "handle": ("label", "level", "summary", "what", "where"),
    "placeholder": ("label", "what", "preview", "where"),
    "where": ("chars", "path", "sha"),
    "same_group": ("blocks", "id"),
    "stub": ("id", "type", "what", "preview"),
    "deleted": ("id", "what"),
    "section": ("id", "type", "what", "chars"),
    "answer": ("command", "returncode"),
    "command": ("command",),
    "said": (),
    "blocks": ("count",),
}
_SHA_CHARS = 12
_ID = re.compile(r"([BG])([1-9][0-9]{0,8})")
_RANGE = re.compile(r"B([1-9][0-9]{0,8})-B([1-9][0-9]{0,8})")


class Refused(Exception):
    """A set of targets that cannot be acted on: ``notice`` names the fixed text, ``values`` fill it."""

    def __init__(self, notice: str, **values: object) -> None:
        super().__init__(notice)
        self.notice = notice
        self.values = values


class Workspace:
    """All blocks of an episode. ``weigh`` gives the tokens of a message; ``recoverable`` says whether what is
    archived stays readable; ``texts`` are the words of handles and files (``conf/method/vista.yaml``)."""

    def __init__(
        self,
        *,
        weigh: Callable[[Message], int],
        recoverable: bool,
        preview_chars: int,
        command_chars: int,
        texts: Mapping[str, str],
    ) -> None:
        self.weigh = weigh
        self.recoverable = recoverable
        self.preview_chars = preview_chars
        self.command_chars = command_chars
        self.texts = texts
        self.blocks: dict[str, Block] = {}
        self.handles: dict[str, Handle] = {}
        """Those that stand in the view, by id."""
        self.files: dict[str, File] = {}
        self._groups = 0
        self._roots = 0
        self._layout: Layout | None = None

    # -------------------------------------------------------------------------------- arrival

    def begin(self, task: Message) -> None:
        """The task is the first block; it is never moved."""
        self._add(Block("B1", "user_message", task, self.weigh(task), task.content, "", 0))

    def add(self, turn: Turn) -> tuple[Block, Block]:
        """A reply and its answer become two blocks."""
        self._roots += 1
        ran = turn.action.text if turn.action else turn.reply.content.strip().rpartition("\n")[2]
        managed = turn.answered_by != "environment"
        reply = self._block("assistant_message", turn.reply, turn.reply.content, (turn.index, "reply"), managed)
        seen = turn.observation
        whole = f"{seen.note}\n{seen.text}" if seen.note else seen.text
        result = self._block("tool_result", turn.result, whole, (turn.index, "result"), managed)
        result.parent = reply.id
        reply.heading, result.heading = self._called(turn, ran)
        reply.what, result.what = self._called(turn, one_line(ran, self.command_chars))
        return reply, result

    def _called(self, turn: Turn, command: str) -> tuple[str, str]:
        said = fill(self.texts["command"], command=command) if turn.action else self.texts["said"]
        return said, fill(self.texts["answer"], command=command, returncode=turn.observation.returncode)

    def discard(self, block: Block, notice: Message) -> None:
        """Throw away what a block held; a notice stands for it, for good."""
        block.message, block.tokens, block.text, block.saves = notice, self.weigh(notice), notice.content, None
        self._layout = None

    # -------------------------------------------------------------------------------- view

    def layout(self) -> Layout:
        """The blocks as they are shown, in order of arrival."""
        if self._layout is None:
            self._layout = self._lay_out()
        return self._layout

    @property
    def in_view(self) -> int:
        """Tokens of all that is shown of the blocks."""
        return sum(self.layout().tokens.values())

    def rows(self) -> list[Row]:
        """The ledger: a row for each block that is not gone."""
        tokens = self.layout().tokens
        return [
            Row(b.id, tokens[b.id], self._roots - b.root, b.type, b.level, b.parent, status_of(b))
            for b in self.blocks.values()
            if b.id in tokens
        ]

    def stubs(self) -> Iterator[Message]:
        """One line for each block or handle in the view, for a view in which the blocks themselves have no room."""
        layout = self.layout()
        for message, unit in zip(layout.messages, layout.units, strict=True):
            if isinstance(unit, Block) and unit.raw:
                preview = one_line(unit.text, self.preview_chars)
                yield Message(
                    "user", fill(self.texts["stub"], id=unit.id, type=unit.type, what=unit.what, preview=preview)
                )
            else:
                yield message

    def raw(self) -> list[Block]:
        """The blocks in the view as they were, but for the task."""
        return [block for block in self.blocks.values() if block.raw]

    def _lay_out(self) -> Layout:
        layout = Layout()
        shown: set[str] = set()
        at: Handle | None = None
        run: list[Block] = []  # neighbours of one handle that has been shown before

        def end_run() -> None:
            if run and at is not None:
                message = self._again(at.id, run)
                layout.messages.append(message)
                layout.units.append(at)
                layout.tokens[run[0].id] = self.weigh(message)
                run.clear()

        for block in self.blocks.values():
            if block.part is None:
                layout.tokens[block.id] = block.tokens
                continue
            if block.deleted is not None and not self._partner(block).raw:
                continue
            layout.tokens[block.id] = 0
            handle = block.handle if block.deleted is None else None
            if handle is not None and handle is at:
                if run:
                    run.append(block)
                continue
            end_run()
            at = handle
            if handle is not None and handle.id in shown:
                run.append(block)
                continue
            message = handle.message if handle is not None else block.deleted or block.message
            layout.messages.append(message)
            layout.units.append(handle or block)
            layout.tokens[block.id] = handle.tokens if handle is not None else block.tokens
            if handle is not None:
                shown.add(handle.id)
        end_run()
        return layout

    def _partner(self, block: Block) -> Block:
        """The other message of its turn. While that is shown as it was, a line stands for a deleted block, so that
        no answer is left without its command; a handle names the command itself."""
        step = 1 if block.type == "assistant_message" else -1
        return self.blocks[f"B{int(block.id[1:]) + step}"]

    # -------------------------------------------------------------------------------- acting

    def resolve(self, targets: str) -> list[Unit]:
        """The blocks and handles that ``targets`` names (``B3,B5-B8``, ``G1``; case does not matter), each once,
        in order. Raises :class:`Refused` when there is none or one of them cannot be moved."""
        units: dict[str, Unit] = {}
        for word in targets.upper().replace(",", " ").split():
            for id in self._ids(word):
                unit = self._unit(id)
                units[unit.id] = unit
        if not units:
            raise Refused("no_targets")
        return sorted(units.values(), key=place)

    def archive(self, units: Sequence[Unit], summary: str) -> Handle:
        """Move units into a file and show one handle for them. Raises :class:`Refused` where a lone handle would
        only be renamed, and where the handle would be no smaller than what it stands for."""
        lone = units[0] if len(units) == 1 else None
        if isinstance(lone, Handle) and lone.status == "archived":
            raise Refused("already", id=lone.id)
        blocks = [block for unit in units for block in blocks_of(unit)]
        blocks.sort(key=place)
        before = sum(self.layout().tokens[block.id] for block in blocks)
        id = lone.id if lone else f"G{self._groups + 1}"
        path = self._path(id)
        # an offloaded block archived by itself keeps its file, and only gets a summary
        file = self.files.get(path) if lone else None
        if file is None:
            text = self._section(lone) if lone else "\n".join(map(self._section, units))
            file = File(text, sha256(text))
        label = id if lone else f"{id} = {spans(blocks)}"
        what = blocks[0].what if len(blocks) == 1 else fill(self.texts["blocks"], count=len(blocks))
        line = fill(
            self.texts["handle"],
            label=label,
            level=1 + max(block.level for block in blocks),
            summary=" ".join(summary.split()),
            what=what,
            where=self._where(path, file),
        )
        handle = self._handle(id, blocks, units, "archived", line)
        after = handle.tokens + sum(self.weigh(self._again(id, run)) for run in self._runs(blocks)[1:])
        if after >= before:
            raise Refused("no_gain", before=before, after=after)
        self._groups += lone is None
        for block in blocks:
            block.level += 1
        self._move_out(handle, path, file)
        return handle

    def offload(self, block: Block) -> int:
        """Move one block out of the view behind a placeholder; how many tokens that saves. A block that is no
        larger than its placeholder stays, and saves 0."""
        if not self.would_save(block):
            return 0
        handle, file = self._placeholder(block)
        saved = block.tokens - handle.tokens
        self._move_out(handle, self._path(handle.id), file)
        return saved

    def would_save(self, block: Block) -> int:
        """What :meth:`offload` would save."""
        if block.saves is None:
            block.saves = max(0, block.tokens - self._placeholder(block)[0].tokens)
        return block.saves

    def _placeholder(self, block: Block) -> tuple[Handle, File]:
        file = File(text := self._section(block), sha256(text))
        line = fill(
            self.texts["placeholder"],
            label=block.id,
            what=block.what,
            preview=one_line(block.text, self.preview_chars),
            where=self._where(self._path(block.id), file),
        )
        return self._handle(block.id, [block], [], "offloaded_placeholder", line), file

    def deletable(self, block: Block) -> bool:
        """Whether the line that would stand for a deleted block, if any, is smaller than the block."""
        return not self._partner(block).raw or self.weigh(self._gone(block)) < block.tokens

    def delete(self, units: Sequence[Unit]) -> None:
        """Remove blocks for good, with every file that holds them. While the other message of a turn is shown as it
        was, a line says what is gone."""
        for unit in units:
            if isinstance(unit, Handle):
                self._forget(unit)
            for block in blocks_of(unit):
                block.deleted = self._gone(block)
                block.handle, block.text, block.message = None, "", block.deleted
                block.tokens = self.weigh(block.deleted)
        self._layout = None

    # -------------------------------------------------------------------------------- details

    def _block(self, type: BlockType, message: Message, text: str, part: Part, managed: bool) -> Block:
        id = f"B{len(self.blocks) + 1}"
        block = Block(id, type, message, self.weigh(message), text, "", self._roots, part=part, managed=managed)
        self._add(block)
        return block

    def _add(self, block: Block) -> None:
        self.blocks[block.id] = block
        self._layout = None

    def _ids(self, word: str) -> Iterator[str]:
        if _ID.fullmatch(word):
            yield word
        elif span := _RANGE.fullmatch(word):
            first, last = int(span[1]), int(span[2])
            if first > last:
                raise Refused("backwards", range=word)
            if last > len(self.blocks):
                raise Refused("unknown", id=f"B{last}", last=f"B{len(self.blocks)}")
            yield from (f"B{number}" for number in range(first, last + 1))
        else:
            raise Refused("bad_target", target=one_line(word, 40))

    def _unit(self, id: str) -> Unit:
        """What an id stands for in the view."""
        if id in self.handles:
            return self.handles[id]
        block = self.blocks.get(id)
        if block is None:
            known = id[0] == "G" and int(id[1:]) <= self._groups
            outer = next((outer for outer in self.handles.values() if id in names(outer)), None) if known else None
            if outer is not None:
                raise Refused("member", id=id, group=outer.id)
            if known:
                raise Refused("was_deleted", id=id)
            raise Refused("unknown", id=id, last=f"B{len(self.blocks)}")
        if block.part is None:
            raise Refused("pinned", id=id)
        if block.deleted is not None:
            raise Refused("was_deleted", id=id)
        if block.handle is not None:
            raise Refused("member", id=id, group=block.handle.id)
        return block

    def _gone(self, block: Block) -> Message:
        return Message("user", fill(self.texts["deleted"], id=block.id, what=block.what))

    def _handle(
        self,
        id: str,
        blocks: list[Block],
        units: Sequence[Unit],
        status: Away,
        line: str,
    ) -> Handle:
        message = Message("user", line)
        inner = [unit for unit in units if isinstance(unit, Handle) and unit.id != id]
        return Handle(id, blocks, inner, status, message, self.weigh(message))

    def _again(self, id: str, run: Sequence[Block]) -> Message:
        """What stands at the later places of a handle."""
        return Message("user", fill(self.texts["same_group"], blocks=spans(run), id=id))

    def _runs(self, blocks: Sequence[Block]) -> list[list[Block]]:
        """Neighbours among ``blocks`` (in order), together, as they will be when these have left the view; what is
        gone between two does not part them."""
        leaving = {block.id for block in blocks}

        def gone(block: Block) -> bool:
            partner = self._partner(block)
            return block.deleted is not None and (not partner.raw or partner.id in leaving)

        found: list[list[Block]] = []
        for block in blocks:
            between = range(place(found[-1][-1]) + 1 if found else 0, place(block))
            others = (self.blocks[f"B{number}"] for number in between) if found else ()
            if found and all(map(gone, others)):
                found[-1].append(block)
            else:
                found.append([block])
        return found

    def _move_out(self, handle: Handle, path: str, file: File) -> None:
        for inner in handle.inner:
            del self.handles[inner.id]
        for block in handle.blocks:
            block.handle, block.text, block.message = handle, "", handle.message
        self.handles[handle.id] = handle
        if self.recoverable:
            self.files[path] = file
        self._layout = None

    def _forget(self, handle: Handle) -> None:
        self.handles.pop(handle.id, None)
        self.files.pop(self._path(handle.id), None)
        for inner in handle.inner:
            self._forget(inner)

    def _section(self, unit: Unit) -> str:
        """What a file holds of a block: a line that says what it is, and its whole text; of a handle, its line."""
        if isinstance(unit, Handle):
            return unit.message.content
        head = fill(self.texts["section"], id=unit.id, type=unit.type, what=unit.heading, chars=len(unit.text))
        return f"{head}\n{unit.text}"

    def _path(self, id: str) -> str:
        return f"{FOLDER}{id}.txt"

    def where(self, handle: Handle) -> str:
        """Size, path and checksum of what a handle stands for; nothing where it cannot be read."""
        path = self._path(handle.id)
        return self._where(path, self.files[path]) if path in self.files else ""

    def _where(self, path: str, file: File) -> str:
        if not self.recoverable:
            return ""
        return fill(self.texts["where"], chars=len(file.text), path=path, sha=file.sha256[:_SHA_CHARS])
