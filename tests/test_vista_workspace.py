"""VISTA's blocks and archive by themselves, and its dashboard on rows made by hand."""

from __future__ import annotations

import hashlib
import time
from typing import Any

import pytest
from bench import PREFIX, Bench, budget, turn, words
from fakes import conf, qwen
from workspaces import blocks_in, ledger, sections

from arcbench.types import ConfigError, Message
from arcbench.vista.dashboard import Dashboard, Row
from arcbench.vista.workspace import Refused, Workspace, one_line, spans, status_of

TEXTS = conf("method/vista")["texts"]
STATUS = conf("method/vista")["status"]


def weigh(message: Message) -> int:
    """Tokens are words, and 2 a message."""
    return 2 + words(message.content)


def workspace(*bodies: str, **changes: Any) -> Workspace:
    """A task and turns with these answers: B2, B3 the first, B4, B5 the next, and so on."""
    made = Workspace(
        **{"weigh": weigh, "recoverable": True, "preview_chars": 120, "command_chars": 300, "texts": TEXTS} | changes
    )
    made.begin(PREFIX[1])
    for index, body in enumerate(bodies):
        made.add(turn(index, body, f"look {index}"))
    return made


def body(at: int, size: int = 60) -> str:
    return f"text {at} " + "word " * size


def shown(space: Workspace) -> list[str]:
    return [message.content for message in space.layout().messages]


def paths(space: Workspace) -> list[str]:
    return sorted(path.removeprefix("/archive/") for path in space.files)


def archive(space: Workspace, targets: str, summary: str = "s") -> str:
    return space.archive(space.resolve(targets), summary).id


# ------------------------------------------------------------------------------------------- arrival


def test_each_message_is_a_block_with_a_row() -> None:
    space = workspace("one two", "three")
    assert space.rows() == [
        Row("B1", weigh(PREFIX[1]), 2, "user_message", 0, None, "pinned"),
        Row("B2", 6, 1, "assistant_message", 0, None, "visible"),
        Row("B3", 4, 1, "tool_result", 0, "B2", "visible"),
        Row("B4", 6, 0, "assistant_message", 0, None, "visible"),
        Row("B5", 3, 0, "tool_result", 0, "B4", "visible"),
    ]
    assert shown(space) == ["```sh\nlook 0\n```", "one two", "```sh\nlook 1\n```", "three"]
    assert space.rows()[1].text == "B2 6 1r assistant_message L0 - visible"


# ------------------------------------------------------------------------------------------- archiving


def test_an_archived_block_keeps_its_id_and_its_place() -> None:
    space = workspace(body(0), body(1), body(2))
    assert archive(space, "B5", "the second") == "B5"
    line = shown(space)[3]
    text = space.files["/archive/B5.txt"].text
    sha = hashlib.sha256(text.encode()).hexdigest()[:12]
    assert line == (
        "[B5, archived, L1: the second | answer to `look 1`, exit code 0"
        f" | {len(text)} characters in /archive/B5.txt, sha256 {sha}]"
    )
    assert text == f"=== B5 tool_result, {len(body(1))} characters: answer to `look 1`, exit code 0 ===\n{body(1)}"
    as_it_was = shown(workspace(body(0), body(1), body(2)))
    assert shown(space) == [*as_it_was[:3], line, *as_it_was[4:]]
    row = space.rows()[4]
    assert (row.id, row.level, row.status, row.tokens) == ("B5", 1, "archived", weigh(Message("user", line)))


def test_several_blocks_share_one_handle_and_one_file() -> None:
    space = workspace(*map(body, range(4)))
    assert archive(space, "B3,B6-B8", "three pages") == "G1"
    lines = shown(space)
    assert lines[1].startswith("[G1 = B3, B6-B8, archived, L1: three pages | 4 blocks | ")
    assert lines[4] == "[B6-B8: in G1, see there]"
    assert lines[5] == body(3)
    assert paths(space) == ["G1.txt"]
    assert [part[0] for part in sections(space.files["/archive/G1.txt"].text)] == ["B3", "B6", "B7", "B8"]
    assert [status_of(block) for block in space.blocks.values()].count("archived") == 4
    # each token once: the first block of a run has its line, the others have none
    tokens = [row.tokens for row in space.rows()]
    assert tokens[2] == weigh(Message("user", lines[1]))
    assert tokens[5:8] == [weigh(Message("user", lines[4])), 0, 0]


def test_neighbours_share_one_line() -> None:
    space = workspace(*map(body, range(3)))
    archive(space, "B2-B5")
    assert len(shown(space)) == 3
    assert [row.tokens for row in space.rows()][2:5] == [0, 0, 0]


def test_levels_rise_and_every_level_keeps_its_file() -> None:
    space = workspace(*map(body, range(4)))
    archive(space, "B3", "first")
    archive(space, "B5,B7", "second")
    files = {path: file.text for path, file in space.files.items()}
    assert archive(space, "B3,G1,B9", "third") == "G2"
    assert {path: file.text for path, file in space.files.items() if "G2" not in path} == files
    assert [(row.id, row.level) for row in space.rows() if row.level] == [("B3", 2), ("B5", 2), ("B7", 2), ("B9", 1)]
    assert shown(space)[1].startswith("[G2 = B3, B5, B7, B9, archived, L2: third")
    inner, second, block = sections(space.files["/archive/G2.txt"].text)
    assert "/archive/B3.txt" in inner
    assert "[G1 = B5, B7, archived, L1: second" in second
    assert block == ("B9", "answer to `look 3`, exit code 0", body(3))
    assert list(space.handles) == ["G2"]


def test_an_offloaded_block_that_is_archived_keeps_its_file_and_gets_a_summary() -> None:
    space = workspace(body(0))
    saved = space.offload(space.blocks["B3"])
    line = shown(space)[1]
    assert saved == weigh(Message("user", body(0))) - weigh(Message("user", line))
    assert line.startswith("[B3, moved out of view: answer to `look 0`, exit code 0 | ")
    assert line.endswith(f" | it begins: {body(0)[:120].strip()}…]")
    assert (space.rows()[2].status, space.rows()[2].level) == ("offloaded_placeholder", 0)
    file = space.files["/archive/B3.txt"]
    assert archive(space, "B3", "short") == "B3"
    assert space.files["/archive/B3.txt"] is file
    assert shown(space)[1].startswith("[B3, archived, L1: short |")
    with pytest.raises(Refused, match="already"):
        archive(space, "B3", "again")


def test_what_is_no_larger_than_its_placeholder_stays() -> None:
    space = workspace("short")
    before = space.rows()
    assert space.would_save(space.blocks["B3"]) == 0
    assert space.offload(space.blocks["B3"]) == 0
    assert (space.rows(), space.files) == (before, {})
    with pytest.raises(Refused, match="no_gain"):
        archive(space, "B3", "a summary that is longer than the block itself")
    assert (space.rows(), space.files) == (before, {})
    # and the number that was not given is given to the next
    assert archive(workspace(body(0)), "B2-B3") == "G1"


def test_a_refused_group_uses_up_no_number() -> None:
    space = workspace("a", "b", body(2), body(3))
    with pytest.raises(Refused, match="no_gain"):
        archive(space, "B2-B5", "word " * 50)
    assert archive(space, "B7,B9") == "G1"


def test_ids_are_never_used_again() -> None:
    space = workspace(*map(body, range(6)))
    assert archive(space, "B3,B5") == "G1"
    space.delete(space.resolve("G1"))
    assert archive(space, "B7,B9") == "G2"
    assert archive(space, "G2,B11") == "G3"
    space.delete(space.resolve("G3"))
    space.add(turn(6, body(6)))
    assert [*space.blocks][-1] == "B15"


# ---------------------------------------------------------------------------------------------- deleting


def test_a_deleted_answer_leaves_a_line_while_its_command_is_shown() -> None:
    space = workspace(body(0), body(1))
    space.delete(space.resolve("B3"))
    assert shown(space)[1] == "[B3, deleted: answer to `look 0`, exit code 0]"
    assert space.rows()[2] == Row("B3", 2 + 9, 1, "tool_result", 0, "B2", "deleted")
    space.delete(space.resolve("B2"))
    assert shown(space) == ["```sh\nlook 1\n```", body(1)]
    assert [row.id for row in space.rows()] == ["B1", "B4", "B5"]


def test_a_deleted_command_leaves_a_line_while_its_answer_is_shown() -> None:
    space = workspace(body(0), body(1))
    space.delete(space.resolve("B4"))
    assert shown(space)[2:] == ["[B4, deleted: your command `look 1`]", body(1)]
    space.offload(space.blocks["B5"])  # whose placeholder names the command
    assert len(shown(space)) == 3
    assert "`look 1`" in shown(space)[2]


def test_lines_of_a_group_join_when_what_parted_them_is_gone() -> None:
    space = workspace(*map(body, range(3)))
    archive(space, "B2-B3,B6-B7")
    assert shown(space)[3] == "[B6-B7: in G1, see there]"
    space.delete(space.resolve("B4-B5"))
    assert len(shown(space)) == 1
    assert [row.tokens for row in space.rows()][2:] == [0, 0, 0]


def test_a_group_around_a_deleted_answer_is_one_line() -> None:
    space = workspace(*map(body, range(3)))
    space.delete(space.resolve("B5"))
    before = sum(row.tokens for row in space.rows())
    handle = space.archive(space.resolve("B2-B4,B6-B7"), "s")
    assert shown(space) == [handle.message.content]
    assert sum(row.tokens for row in space.rows()) < before


def test_a_group_is_refused_just_where_its_lines_are_no_smaller() -> None:
    """What a deleted answer leaves beside a command goes with the command, and parts no lines."""
    for size in range(60):
        space = workspace(body(0, size), body(1), body(2, 0))
        space.delete(space.resolve("B5"))
        before = sum(row.tokens for row in space.rows() if row.id in ("B2", "B3", "B4", "B6", "B7"))
        try:
            handle = space.archive(space.resolve("B2-B4,B6-B7"), "word " * 30)
        except Refused:
            continue
        assert size > 0
        assert (before, space.in_view) == (handle.tokens + 1, handle.tokens + space.blocks["B1"].tokens)
        return
    raise AssertionError("never accepted")


def test_whether_a_block_may_be_deleted_for_room() -> None:
    space = workspace("ok", body(1))
    assert [space.deletable(space.blocks[id]) for id in ("B2", "B3", "B4", "B5")] == [False, False, False, True]
    space.delete(space.resolve("B3"))
    assert space.deletable(space.blocks["B2"])  # with it the line of the other goes


def test_deleting_a_group_deletes_the_files_of_all_levels_and_no_others() -> None:
    space = workspace(*map(body, range(6)))
    archive(space, "B3")
    archive(space, "B5,B7")
    archive(space, "B3,G1,B9")
    archive(space, "B11")
    assert paths(space) == ["B11.txt", "B3.txt", "G1.txt", "G2.txt"]
    space.delete(space.resolve("G2"))
    assert paths(space) == ["B11.txt"]
    assert list(space.handles) == ["B11"]
    assert not any("text 0" in file.text for file in space.files.values())


@pytest.mark.parametrize(
    ("targets", "notice", "values"),
    [
        ("", "no_targets", {}),
        (" , ,", "no_targets", {}),
        ("B1", "pinned", {"id": "B1"}),
        ("B1-B3", "pinned", {"id": "B1"}),
        ("B99", "unknown", {"id": "B99", "last": "B13"}),
        ("B3-B99", "unknown", {"id": "B99", "last": "B13"}),
        ("B13,B99", "unknown", {"id": "B99", "last": "B13"}),
        ("B1-B999999999", "unknown", {"id": "B999999999", "last": "B13"}),
        ("B7-B5", "backwards", {"range": "B7-B5"}),
        ("b7-b5", "backwards", {"range": "B7-B5"}),
        ("B3", "was_deleted", {"id": "B3"}),
        ("B2-B4", "was_deleted", {"id": "B3"}),
        ("B7", "member", {"id": "B7", "group": "G2"}),
        ("B10-B12", "member", {"id": "B11", "group": "G2"}),
        ("G1", "member", {"id": "G1", "group": "G2"}),
        ("B5", "member", {"id": "B5", "group": "G2"}),
        ("G3", "unknown", {"id": "G3", "last": "B13"}),
        ("G2-G3", "bad_target", {"target": "G2-G3"}),
        ("B0", "bad_target", {"target": "B0"}),
        ("B013", "bad_target", {"target": "B013"}),
        ("B99999999999", "bad_target", {"target": "B99999999999"}),
        ("B12 - B13", "bad_target", {"target": "-"}),
        ("B12–B13", "bad_target", {"target": "B12–B13"}),
        ("B12..B13", "bad_target", {"target": "B12..B13"}),
        ("B12;B13", "bad_target", {"target": "B12;B13"}),
        ("B1３", "bad_target", {"target": "B1３"}),
        ("all", "bad_target", {"target": "ALL"}),
        ("-B13", "bad_target", {"target": "-B13"}),
        ("B13-", "bad_target", {"target": "B13-"}),
        ("/archive/B13.txt", "bad_target", {"target": "/ARCHIVE/B13.TXT"}),
        ("x" * 99, "bad_target", {"target": "X" * 40 + "…"}),
    ],
)
def test_targets_that_cannot_be_moved(targets: str, notice: str, values: dict[str, str]) -> None:
    space = workspace(*map(body, range(6)))
    space.delete(space.resolve("B3"))
    archive(space, "B5")
    archive(space, "B7,B9")
    archive(space, "B5,G1,B11")
    with pytest.raises(Refused) as refused:
        space.resolve(targets)
    assert (refused.value.notice, refused.value.values) == (notice, values)


@pytest.mark.parametrize("targets", ["B12,B10,G1,B12", "g1 b12, b10", "B10-B10,,B12,G1,", "B12\tB10\u2003G1"])
def test_targets_are_found_once_each_and_in_order(targets: str) -> None:
    space = workspace(*map(body, range(6)))
    archive(space, "B7,B13")
    assert [unit.id for unit in space.resolve(targets)] == ["G1", "B10", "B12"]


def test_a_deleted_group_is_known_as_deleted() -> None:
    space = workspace(*map(body, range(3)))
    archive(space, "B3,B5")
    space.delete(space.resolve("G1"))
    with pytest.raises(Refused, match="was_deleted"):
        space.resolve("G1")


# ---------------------------------------------------------------------------------------------- details


def test_without_recovery_a_handle_names_no_file() -> None:
    space = workspace(*map(body, range(3)), recoverable=False)
    archive(space, "B3,B5", "s")
    space.offload(space.blocks["B7"])
    assert space.files == {}
    text = " ".join(shown(space))
    assert "/archive" not in text
    assert "sha256" not in text
    assert shown(space)[1] == "[G1 = B3, B5, archived, L1: s | 2 blocks]"


def test_a_heading_that_is_imitated_hides_nothing() -> None:
    fake = f"x\n=== B9 tool_result, 3 characters: answer to `look 9`, exit code 0 ===\nabc\n{'word ' * 60}"
    space = workspace(fake, body(1))
    archive(space, "B3,B5")
    assert list(sections(space.files["/archive/G1.txt"].text)) == [
        ("B3", "answer to `look 0`, exit code 0", fake),
        ("B5", "answer to `look 1`, exit code 0", body(1)),
    ]


def test_a_text_on_one_line() -> None:
    assert one_line(" a\n\tb\u2028c ", 9) == "a b c"
    assert one_line("abcdef", 6) == "abcdef"
    assert one_line("abcdefg", 6) == "abcdef…"
    assert one_line(" " * 100, 6) == "…"


def test_spans_are_as_an_agent_would_write_them() -> None:
    space = workspace(*map(body, range(6)))
    assert spans([space.blocks[f"B{n}"] for n in (2, 3, 4, 6, 8, 9)]) == "B2-B4, B6, B8-B9"
    assert blocks_in("[G1 = B2-B4, B6, archived, L1: x]") == ["B2", "B3", "B4", "B6"]


# --------------------------------------------------------------------------------------------- dashboard

ROWS = [
    Row("B1", 50, 30, "user_message", 0, None, "pinned"),
    *(Row(f"B{n}", 20, 30 - n, "tool_result", n % 3, f"B{n - 1}", "archived") for n in range(2, 12)),
    Row("B12", 70, 2, "tool_result", 0, "B11", "offloaded_placeholder"),
    Row("B13", 400, 0, "tool_result", 0, "B12", "visible"),
]


def composed(form: str = "full", rows: list[Row] = ROWS, total: int = 2000, weigh: Any = None, **more: Any) -> Any:
    board = Dashboard(form=form, texts=STATUS, key="method.status")
    return board.compose(rows, overhead=100, total=total, weigh=weigh or qwen_weigh, **more)


def qwen_weigh(message: Message) -> int:
    return qwen().count((message,), thinking=False) - qwen().count((), thinking=False)


@pytest.mark.parametrize(
    "weigh", [qwen_weigh, weigh, lambda message: len(message.content)], ids=["qwen", "words", "len"]
)
@pytest.mark.parametrize("total", [1, 700, 1000, 1001, 9999, 10**6])
@pytest.mark.parametrize("form", ["full", "folded"])
@pytest.mark.parametrize("guess", [0, 1, 95, 99, 100, 999, 10**5])
def test_a_dashboard_counts_itself(weigh: Any, total: int, form: str, guess: int) -> None:
    message, size = composed(form, total=total, weigh=weigh, guess=guess)
    assert size == weigh(message)
    printed = ledger(message.content)
    assert printed["own"] == size
    assert printed["used"] == 100 + 720 + size == printed["overhead"] + printed["sum"] + size
    assert (printed["conversation"], printed["total"]) == (720, total)
    assert printed["percent"] == min(100, round(100 * printed["used"] / total))
    assert printed["bar"] == "#" * (printed["percent"] // 5) + "." * (20 - printed["percent"] // 5)


@pytest.mark.parametrize("conversation", [*range(8_700, 9_000, 7), *range(830, 900, 3), 0])
def test_a_dashboard_counts_itself_where_its_digits_turn_over(conversation: int) -> None:
    rows = [Row("B1", conversation, 0, "user_message", 0, None, "pinned")]
    for guess in (0, 60, 120):
        message, size = composed(rows=rows, total=10_000, guess=guess)
        assert size == qwen_weigh(message) == ledger(message.content)["own"]


def test_the_full_form_has_a_row_for_each_block() -> None:
    message, _ = composed()
    lines = message.content.split("\n")
    assert lines[0] == "<context_workspace_status>"
    assert lines[3] == "ID tokens age type level parent status"
    assert lines[4:-1] == [row.text for row in ROWS]
    assert lines[-1] == "</context_workspace_status>"


def test_the_folded_form_has_one_line_for_all_that_is_away() -> None:
    message, _ = composed("folded")
    lines = message.content.split("\n")[4:-1]
    assert lines == ["11 blocks out of view (B2 to B12): 270 tokens", ROWS[0].text, ROWS[-1].text]
    whole = [row for row in ROWS if row.status in ("pinned", "visible")]
    assert composed("folded", whole) == composed("full", whole)


def test_a_board_stands_above_the_dashboard_and_is_counted() -> None:
    message, size = composed(board="Remember the door.")
    assert message.content.startswith("Remember the door.\n<context_workspace_status>\n")
    assert size == qwen_weigh(message) == ledger(message.content)["own"]


@pytest.mark.parametrize(
    ("form", "texts", "complaint"),
    [
        ("half", STATUS, "method.dashboard=half: must be one of full, folded"),
        ("full", {**STATUS, "tail": "x"}, "method.status=tail: must be one of head, ledger, folded, foot"),
        (
            "full",
            {**STATUS, "head": "$used of $total"},
            "method.status.head='.used of .total': must be a text",
        ),
        ("full", {key: text for key, text in STATUS.items() if key != "foot"}, "method.status.foot=None: "),
    ],
)
def test_a_dashboard_that_cannot_be_is_named(form: str, texts: dict[str, str], complaint: str) -> None:
    with pytest.raises(ConfigError, match=f"^{complaint}"):
        Dashboard(form=form, texts=texts, key="method.status")


def test_the_footprint_is_the_paper_s() -> None:
    """About 1.4k tokens at 62 blocks in full, about 340 folded (54 of them archived)."""
    rows = [Row("B1", 300, 31, "user_message", 0, None, "pinned")]
    for n in range(2, 63):
        kind: Any = "tool_result" if n % 2 else "assistant_message"
        away = n <= 55
        rows.append(
            Row(f"B{n}", 30 if away else 900, (62 - n) // 2, kind, int(away), f"B{n - 1}" if n % 2 else None,
                "archived" if away else "visible")
        )  # fmt: skip
    assert 1100 < composed(rows=rows)[1] < 1700
    assert 200 < composed("folded", rows)[1] < 340


def test_the_same_blocks_weigh_what_the_bench_counts() -> None:
    """A workspace's rows and what stands before them are the count of the whole prompt."""
    bench = Bench(budget(1000, 100))
    space = workspace(*map(body, range(4)), weigh=lambda message: bench.count((message,)) - bench.count(()))
    archive(space, "B3,B7")
    space.delete(space.resolve("B5"))
    space.offload(space.blocks["B9"])
    messages = [*PREFIX, *space.layout().messages]
    assert bench.count(PREFIX[:1]) + sum(row.tokens for row in space.rows()) == bench.count(messages)


def test_a_turn_is_counted_once_whatever_came_before() -> None:
    """The ledger is made of cached counts: what it costs depends on no text but the new one."""
    weighed: list[str] = []

    def count(message: Message) -> int:
        weighed.append(message.content)
        return weigh(message)

    space = workspace(*map(body, range(250)), weigh=count)
    for first in range(2, 400, 8):
        archive(space, f"B{first}-B{first + 6}")
    space.rows()
    weighed.clear()
    space.rows()
    assert weighed == []
    space.add(turn(250, body(250), "look 250"))
    assert [row.id for row in space.rows()][-1] == "B503"
    assert weighed == ["```sh\nlook 250\n```", body(250)]


def test_five_hundred_rows_take_under_five_milliseconds() -> None:
    rows = [Row(f"B{n}", 20, 500 - n, "tool_result", 1, f"B{n - 1}", "archived") for n in range(1, 501)]
    spent = []
    for _ in range(9):
        start = time.thread_time()
        message, _ = composed(rows=rows, total=100_000, weigh=lambda message: 9000, guess=9000)
        spent.append(time.thread_time() - start)
    assert message.content.count("\n") == 504
    assert sorted(spent)[4] < 0.005
