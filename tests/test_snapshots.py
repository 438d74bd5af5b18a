"""From a record to the blocks as they stood before anything left the view."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from bench import budget
from fakes import Drops, FakeEngine, FakeHarness, Keeps, Manages, Proactive, conf, played, run, setup, task
from probes import OMITTED, collected, record, shape

from analysis import snapshots
from arcbench.records import Run, runs_below
from arcbench.text import excerpt

# ------------------------------------------------------------------------------- what a snapshot is


def test_each_message_is_a_block_but_for_the_system_message_and_corrections() -> None:
    played_ = record(Keeps, run("say 5"), "no command here", run("say 3"), run("submit 42"))
    blocks = snapshots.blocks_of(played_, OMITTED, ["archive"])
    assert shape(blocks) == [
        ("B1", "user_message", 0, None),
        ("B2", "assistant_message", 1, None),
        ("B3", "tool_result", 1, "B2"),
        ("B4", "assistant_message", 2, None),  # its correction is no block
        ("B5", "assistant_message", 3, None),
        ("B6", "tool_result", 3, "B5"),
        ("B7", "assistant_message", 4, None),
        ("B8", "tool_result", 4, "B7"),
    ]
    assert [blocks[i].text for i in (0, 2, 3, 5, 7)] == ["Say it.", "w0 w1 w2 w3 w4", "no command here", "w0 w1 w2",
                                                         "Done."]  # fmt: skip


def test_a_snapshot_ends_where_a_method_first_moved_something() -> None:
    said = [run("say 1"), run("say 2"), run("say 3"), run("submit 42")]
    assert snapshots.turns_before_archive(record(Keeps, *said, calls=(3,)), []) == 4  # it had nothing to give
    assert snapshots.turns_before_archive(record(Drops, *said, calls=(3,)), []) == 2
    # made while the third turn was taken in: what it moved is gone when that turn is over

    def proactive(*, bench: Any) -> Proactive:
        return Proactive(bench=bench, most=2)

    assert snapshots.turns_before_archive(record(proactive, *said), []) == 2


def test_a_snapshot_ends_where_the_agent_is_made_to_archive_or_does_it_and_refusals_are_no_blocks() -> None:
    said = [run("say 1"), run("say 2"), run("ls"), run("drop 1"), run("submit 42")]
    played_ = record(Manages, *said, calls=(3,))
    assert [turn["answered_by"] for turn in played_["turns"]][2:4] == ["gate", "method"]
    assert snapshots.turns_before_archive(played_, []) == 2  # from then on it was shown another view
    by_itself = played_ | {"compactions": []}
    assert snapshots.turns_before_archive(by_itself, []) == 5
    assert snapshots.turns_before_archive(by_itself, ["drop"]) == 3
    blocks = snapshots.blocks_of(by_itself, OMITTED, ["drop"])
    assert [block.type for block in blocks[-3:]] == ["assistant_message", "tool_result", "assistant_message"]
    assert "Not now" not in "".join(block.text for block in blocks)


def test_within_a_replayed_history_the_fates_say_where_it_was_compacted() -> None:
    turns = [{"call": None, "action": "ls"}] * 4 + [{"call": 1, "action": "ls"}]
    row = {
        "before_call": 1,
        "trigger": "overflow",
        "outcome": "done",
        "fates": {"dropped": ["0.reply", "0.result"], "kept": ["1.reply"]},
    }
    assert snapshots.turns_before_archive({"turns": turns, "compactions": [row]}, []) == 2
    kept = row | {"fates": {"kept": ["0.reply"]}}
    assert snapshots.turns_before_archive({"turns": turns, "compactions": [kept]}, []) == 5
    asked_to = row | {"outcome": "pending", "fates": {}}  # the history waits for the agent's next call
    assert snapshots.turns_before_archive({"turns": turns, "compactions": [asked_to]}, []) == 4


def test_the_line_that_tells_how_much_was_left_out_goes_and_nothing_else() -> None:
    text = f"{'a' * 50}{'b' * 4321}{'c' * 50}"
    shown = excerpt(text, 100, conf("config")["rules"]["omitted"])
    assert "4321" in shown
    assert OMITTED.sub("\n", shown) == f"{'a' * 50}\n{'c' * 50}"
    quoted = "a line with 12 characters left out in the middle"
    assert OMITTED.sub("\n", quoted) == quoted
    odd = snapshots.left_out("(cut: ${chars}; $$ are not)")
    assert odd.sub("\n", "x\n(cut: 12; $ are not)\ny") == "x\ny"


def test_long_answers_lose_the_line_in_a_real_record() -> None:
    engine = FakeEngine([run("say 4000"), run("submit 42")], window=9000)
    played_ = played(task(), setup(engine, Keeps, budget(9000, 20, presentation_limit_chars=300), FakeHarness()))
    assert "characters left out" in played_["messages"][3]["content"]
    assert "left out" not in snapshots.blocks_of(played_, OMITTED, [])[2].text


# -------------------------------------------------------------------------------------- real records


def test_what_one_method_saw_before_it_moved_anything_is_the_beginning_of_what_another_saw(transcripts: Path) -> None:
    (found,) = collected(runs_below(transcripts)).values()
    assert (found.episodes, found.short, found.same) == (6, 0, 4)
    assert [Path(each.source).parent.name for each in found.snapshots.values()] == ["full_context"] * 2
    assert {len(each.blocks) for each in found.snapshots.values()} == {37}
    only_moved = (run for run in runs_below(transcripts) if run.manifest["method"] != "full_context")
    (found,) = collected(only_moved).values()
    assert (found.episodes, found.short, found.same) == (4, 0, 2)
    assert {len(each.blocks) for each in found.snapshots.values()} == {19}  # the task and the nine turns before call 10
    (found,) = collected(runs_below(transcripts), blocks_least=20).values()
    assert (found.short, found.same, len(found.snapshots)) == (4, 0, 2)


def test_nothing_that_a_method_says_is_in_a_snapshot(transcripts: Path) -> None:
    for run_ in runs_below(transcripts):
        for record_ in run_.episodes():
            text = "\n".join(block.text for block in snapshots.blocks_of(record_, OMITTED, ["archive"]))
            for sign in ("_recall", "§", "/archive", "context_workspace_status", "left out", "fenced block", "[B"):
                assert sign not in text
            assert text.startswith("Your task")


def test_a_record_that_keeps_spans_of_a_document_is_left_out_and_counted(transcripts: Path) -> None:
    class Packed:
        """A run whose messages quote a document that is not here."""

        def __init__(self, run: Run) -> None:
            self.path, self.columns, self.config, self._run = run.path, run.columns, run.config, run

        def episodes(self) -> list[dict[str, Any]]:
            return [
                record | {"messages": [*record["messages"], {"role": "user", "parts": [[0, 9]], "tokens": 3}]}
                for record in self._run.episodes()
            ]

    first, *others = runs_below(transcripts)
    (found,) = collected(iter([Packed(first), *others])).values()  # type: ignore[list-item]
    assert (found.episodes, found.packed) == (6, 2)
    assert found.snapshots
    assert str(first.path) not in {snapshot.source for snapshot in found.snapshots.values()}
