"""The perception probe: what a snapshot holds and hides, what is asked, and the scores by hand."""

from __future__ import annotations

import asyncio
import csv
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import orjson
import pandas as pd
import pytest
import yaml
from bench import budget, words
from fakes import Drops, FakeEngine, FakeHarness, Keeps, Manages, Proactive, compose, conf, played, run, setup, task

from analysis import perception
from analysis.perception import Asked, Block, Found, Question, Settings, Snapshot
from arcbench.records import RunFolder, runs_below
from arcbench.runner import Cell, make_engine, run_episodes
from arcbench.text import excerpt
from arcbench.types import ConfigError, EngineError, Json, Message, Reply, Request

COMMITTED = Path(__file__).parents[1] / "conf/perception/probe.yaml"
TABLE5 = Path(__file__).parents[2] / "shared/paper/vista_table05.csv"
SMALL = ("budget=tiny", "budget.window_tokens=4096", "budget.force_at_calls=[10]", "recall=4k_2k",
         "harness.n_tasks=2", "harness.noise=words", "harness.noise_lines_per_side=5")  # fmt: skip
OMITTED = perception.left_out(conf("config")["rules"]["omitted"])


def settings(**changes: Any) -> Settings:
    return Settings(**yaml.safe_load(COMMITTED.read_text("utf-8")) | changes)


def asked(engine: FakeEngine) -> Asked:
    return Asked(engine=engine, model="fake", window_tokens=engine.window, identity="fake", temperature=0.0)


def shape(blocks: tuple[Block, ...]) -> list[tuple[str, str, int, str | None]]:
    return [(block.id, block.type, block.root, block.parent) for block in blocks]


def snapshot(*sizes: int) -> Snapshot:
    """Blocks of so many words: the task, then replies and their answers in turn."""
    blocks = [Block("B1", "user_message", "w " * sizes[0], 0, None)]
    for number, size in enumerate(sizes[1:], start=2):
        reply = number % 2 == 0
        parent = None if reply else f"B{number - 1}"
        text = f"{'r' if reply else 'a'} " * size
        blocks.append(Block(f"B{number}", "assistant_message" if reply else "tool_result", text, number // 2, parent))
    return Snapshot("snap", "runs/x", "fake/0", tuple(blocks))


EIGHT = snapshot(5, 3, 7, 3, 40, 3, 12, 2)


def asks_of(found: Snapshot, **changes: Any) -> tuple[Snapshot, list[Question], str]:
    window = changes.pop("window", 10_000)
    return perception.fitted(found, asked(FakeEngine([], window=window)), settings(**changes))


# ------------------------------------------------------------------------------- what a snapshot is


def record(method: Any, *said: str, calls: tuple[int, ...] = (), window: int = 2000) -> dict[str, Json]:
    """An episode in which the agent says this; compactions are forced at these calls."""
    engine = FakeEngine(list(said), window=window)
    return played(task(), setup(engine, method, budget(window, 20, force_at_calls=calls)))


def test_each_message_is_a_block_but_for_the_system_message_and_corrections() -> None:
    played_ = record(Keeps, run("say 5"), "no command here", run("say 3"), run("submit 42"))
    blocks = perception.blocks_of(played_, OMITTED, ["archive"])
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
    assert perception.turns_before_archive(record(Keeps, *said, calls=(3,)), []) == 4  # it had nothing to give
    assert perception.turns_before_archive(record(Drops, *said, calls=(3,)), []) == 2
    # made while the third turn was taken in: what it moved is gone when that turn is over

    def proactive(*, bench: Any) -> Proactive:
        return Proactive(bench=bench, most=2)

    assert perception.turns_before_archive(record(proactive, *said), []) == 2


def test_a_snapshot_ends_where_the_agent_is_made_to_archive_or_does_it_and_refusals_are_no_blocks() -> None:
    said = [run("say 1"), run("say 2"), run("ls"), run("drop 1"), run("submit 42")]
    played_ = record(Manages, *said, calls=(3,))
    assert [turn["answered_by"] for turn in played_["turns"]][2:4] == ["gate", "method"]
    assert perception.turns_before_archive(played_, []) == 2  # from then on it was shown another view
    by_itself = played_ | {"compactions": []}
    assert perception.turns_before_archive(by_itself, []) == 5
    assert perception.turns_before_archive(by_itself, ["drop"]) == 3
    blocks = perception.blocks_of(by_itself, OMITTED, ["drop"])
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
    assert perception.turns_before_archive({"turns": turns, "compactions": [row]}, []) == 2
    kept = row | {"fates": {"kept": ["0.reply"]}}
    assert perception.turns_before_archive({"turns": turns, "compactions": [kept]}, []) == 5
    asked_to = row | {"outcome": "pending", "fates": {}}  # the history waits for the agent's next call
    assert perception.turns_before_archive({"turns": turns, "compactions": [asked_to]}, []) == 4


def test_the_line_that_tells_how_much_was_left_out_goes_and_nothing_else() -> None:
    text = f"{'a' * 50}{'b' * 4321}{'c' * 50}"
    shown = excerpt(text, 100, conf("config")["rules"]["omitted"])
    assert "4321" in shown
    assert OMITTED.sub("\n", shown) == f"{'a' * 50}\n{'c' * 50}"
    quoted = "a line with 12 characters left out in the middle"
    assert OMITTED.sub("\n", quoted) == quoted
    odd = perception.left_out("(cut: ${chars}; $$ are not)")
    assert odd.sub("\n", "x\n(cut: 12; $ are not)\ny") == "x\ny"


def test_long_answers_lose_the_line_in_a_real_record() -> None:
    engine = FakeEngine([run("say 4000"), run("submit 42")], window=9000)
    played_ = played(task(), setup(engine, Keeps, budget(9000, 20, presentation_limit_chars=300), FakeHarness()))
    assert "characters left out" in played_["messages"][3]["content"]
    assert "left out" not in perception.blocks_of(played_, OMITTED, [])[2].text


# -------------------------------------------------------------------------------------- real records


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two tasks of the needle harness, played by the scripted reader with three methods."""
    folder = tmp_path_factory.mktemp("perception") / "runs"
    for method in ("full_context", "arc", "vista"):
        words_ = (f"method={method}", *SMALL, f"results_dir={folder}")
        cell = Cell.compose(compose(*words_))
        with RunFolder(cell.run_dir, cell.config, cell.config["digest_ignores"]) as run_folder:
            tasks = cell.harness.tasks()
            run_folder.write_manifest(cell.manifest({}, cell.engine, len(tasks)))
            asyncio.run(run_episodes(cell.setup(cell.engine), tasks, run_folder, cell.timeout_s, len(tasks)))
    return folder


def test_what_one_method_saw_before_it_moved_anything_is_the_beginning_of_what_another_saw(runs: Path) -> None:
    (found,) = perception.collect(runs_below(runs), settings()).values()
    assert (found.episodes, found.short, found.same) == (6, 0, 4)
    assert [Path(each.source).parent.name for each in found.snapshots.values()] == ["full_context"] * 2
    assert {len(each.blocks) for each in found.snapshots.values()} == {37}
    only_moved = (run for run in runs_below(runs) if run.manifest["method"] != "full_context")
    (found,) = perception.collect(only_moved, settings()).values()
    assert (found.episodes, found.short, found.same) == (4, 0, 2)
    assert {len(each.blocks) for each in found.snapshots.values()} == {19}  # the task and the nine turns before call 10
    (found,) = perception.collect(runs_below(runs), settings(blocks_least=20)).values()
    assert (found.short, found.same, len(found.snapshots)) == (4, 0, 2)


def test_nothing_that_a_method_says_is_in_a_snapshot(runs: Path) -> None:
    for run_ in runs_below(runs):
        for record_ in run_.episodes():
            text = "\n".join(block.text for block in perception.blocks_of(record_, OMITTED, ["archive"]))
            for sign in ("_recall", "§", "/archive", "context_workspace_status", "left out", "fenced block", "[B"):
                assert sign not in text
            assert text.startswith("Your task")


# ------------------------------------------------------------------------------------ what is asked


def test_without_the_dashboard_no_number_but_the_labels_stands_outside_the_blocks(runs: Path) -> None:
    engine = FakeEngine([], window=8000)
    (found,) = perception.collect(runs_below(runs), settings()).values()
    for each in perception.plan("needle", found, asked(engine), settings()).questions:
        if each.dashboard:
            continue
        outside = [each.messages[0].content, each.messages[-1].content]
        outside += [message.content.split("\n", 1)[0] for message in each.messages[1:-1]]
        assert re.findall(r"\d+", re.sub(r"\bB\d+\b", "", "\n".join(outside))) == []
        texts = [message.content.split("\n", 1)[1] for message in each.messages[1:-1]]
        assert texts == [block.text for block in found.snapshots[each.snapshot].blocks[: len(texts)]]


def test_the_two_prompts_of_a_question_differ_by_the_dashboard_alone() -> None:
    _, asks, _ = asks_of(EIGHT)
    without, shown = asks[: len(asks) // 2], asks[len(asks) // 2 :]
    for plain, ledger in zip(without, shown, strict=True):
        assert (plain.dashboard, ledger.dashboard) == (False, True)
        assert ledger.messages == (*plain.messages[:-1], ledger.messages[-2], plain.messages[-1])
        assert (plain.truth, plain.blocks, plain.schema) == (ledger.truth, ledger.blocks, ledger.schema)
        assert plain.key != ledger.key


def test_what_is_asked_of_eight_blocks() -> None:
    kept, asks, cut = asks_of(EIGHT)
    assert (len(kept.blocks), cut) == (8, "")
    sizes = dict(zip([f"B{i}" for i in range(1, 9)], (5, 3, 7, 3, 40, 3, 12, 2), strict=True))
    plain = [each for each in asks if not each.dashboard]
    assert [each.probe for each in plain] == ["total_size", *["block_size"] * 4, *["pairwise"] * 6]
    assert plain[0].truth == 75
    sized = [each.blocks[0] for each in plain[1:5]]
    assert len(set(sized)) == 4
    assert "B8" not in sized
    assert [each.truth for each in plain[1:5]] == [sizes[id] for id in sized]
    pairs = [each for each in plain if each.probe == "pairwise"]
    assert len({frozenset(each.blocks) for each in pairs}) == 6
    for each in pairs:
        first, second = sorted(each.blocks)
        assert each.truth == (first if sizes[first] >= sizes[second] else second)
        assert each.ratio == max(sizes[first], sizes[second]) / min(sizes[first], sizes[second])
        assert each.schema["properties"]["larger"]["enum"] == list(each.blocks)
        assert each.text.startswith(f"Which block has more tokens, {each.blocks[0]} or {each.blocks[1]}?")


def test_the_last_block_is_never_sized_and_either_of_a_pair_is_named_first() -> None:
    asks = [each for seed in range(40) for each in asks_of(EIGHT, seed=seed)[1] if not each.dashboard]
    sized = {each.blocks[0] for each in asks if each.probe == "block_size"}
    assert sized == {f"B{i}" for i in range(1, 8)}
    rising = [each.blocks[0] < each.blocks[1] for each in asks if each.probe == "pairwise"]
    assert 0.35 < sum(rising) / len(rising) < 0.65


def test_of_two_equal_blocks_the_first_is_the_larger() -> None:
    assert perception.larger(("B2", "B10"), {"B2": 3, "B10": 3}) == "B2"
    assert perception.larger(("B2", "B10"), {"B2": 3, "B10": 4}) == "B10"


def test_the_dashboard_prints_the_sizes_that_are_asked_for() -> None:
    _, asks, _ = asks_of(EIGHT)
    message = next(each for each in asks if each.dashboard).messages[-2]
    assert "blocks 75," in message.content
    lines = message.content.split("\n")
    assert lines[4] == "B1 5 4r user_message L0 - pinned"
    assert lines[8] == "B5 40 2r tool_result L0 B4 visible"
    assert lines[11] == "B8 2 0r assistant_message L0 - visible"
    # what it says it takes together is the prompt without its question
    own = 2 + words(message.content)
    assert f": {3 + sum(2 + words(m.content) for m in asks[-1].messages[:-2]) + own} of 9744 tokens" in lines[1]
    assert f"this status {own}" in lines[2]


# ---------------------------------------------------------------------------------------- what fits


def test_the_block_that_crosses_the_cap_goes_and_all_after_it() -> None:
    long = snapshot(5, 3, 7, 3, 40, 3, 12, 2, 100, 1)
    kept, _, cut = asks_of(long, most_tokens=75)
    assert (len(kept.blocks), kept.tokens, cut) == (8, 75, "cap")
    kept, asks, _ = asks_of(long, most_tokens=74)
    assert len(kept.blocks) == 7
    assert asks == []  # too few to be asked about


def test_a_snapshot_is_cut_to_what_fits_with_any_question_the_dashboard_and_the_reply() -> None:
    long = snapshot(*[20] * 30)
    engine = FakeEngine([], window=700)
    reply = settings().reply_tokens
    kept, asks, cut = perception.fitted(long, asked(engine), settings())
    assert cut == "window"
    assert 8 <= len(kept.blocks) < 30
    most = max(engine.count(each.messages, thinking=False) for each in asks)
    one_more = 2 + 1 + 20 + 7  # framing, label and text, and a line of the dashboard
    assert most <= 700 - reply < most + one_more


def test_skipped_snapshots_are_counted_and_the_next_one_is_drawn() -> None:
    snaps = {f"s{i}": replace(snapshot(*([900] * 9 if i < 3 else [5] * 9)), id=f"s{i}") for i in range(6)}
    made = perception.plan("fake", Found(snaps, episodes=9, short=2, same=1), asked(FakeEngine([], window=900)),
                           settings())  # fmt: skip
    assert {each.id for each in made.snapshots} == {"s3", "s4", "s5"}
    assert made.about.startswith("3 of 5 snapshots, 9 blocks and 45 tokens each, from 9 episodes (2 with fewer than 8")
    assert "of those drawn, 3 with too few blocks that fit" in made.about
    one = perception.plan("fake", Found(snaps), asked(FakeEngine([], window=900)), settings(snapshots=1))
    assert one.snapshots[0].id == made.snapshots[0].id  # the first of the same order
    assert len(one.questions) == 2 * 11


# ---------------------------------------------------------------------------------------- the scores


def q(probe: Any, truth: int | str, blocks: tuple[str, ...] = (), ratio: float | None = None) -> Question:
    return Question("k", "snap", False, probe, blocks, truth, ratio, "", (), {}, 1)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ('{"tokens": 120}', 120),
        ('```json\n{"tokens": 0}\n```', 0),
        ('{"tokens": 120, "why": "a guess"}', 120),
        ('{"tokens": "120"}', None),
        ('{"tokens": 120.5}', None),
        ('{"tokens": -1}', None),
        ('{"tokens": true}', None),
        ('{"tokens": null}', None),
        ('{"larger": "B2"}', None),
        ("120", None),
        ("", None),
        ('{"tokens": 12', None),
        ('{"tokens": 1} or {"tokens": 2}', None),
        ('{"tokens": ' + "9" * 5000 + "}", None),
    ],
)
def test_a_size_is_read_from_one_json_object_or_not_at_all(text: str, value: int | None) -> None:
    assert perception.read(q("block_size", 100, ("B2",)), text) == value


@pytest.mark.parametrize(
    ("text", "value"),
    [('{"larger": "B2"}', "B2"), ('{"larger": "B10"}', "B10"), ('{"larger": "B3"}', None), ('{"larger": 2}', None),
     ('{"larger": ["B2"]}', None), ("B2", None)],
)  # fmt: skip
def test_a_comparison_is_one_of_the_two_labels_or_nothing(text: str, value: str | None) -> None:
    assert perception.read(q("pairwise", "B2", ("B10", "B2")), text) == value


def test_medians_and_shares_by_hand() -> None:
    asks = [
        q("total_size", 200), q("total_size", 100),
        *(q("block_size", truth, ("B2",)) for truth in (10, 10, 40, 50)),
        q("pairwise", "B1", ("B1", "B2"), 1.0), q("pairwise", "B1", ("B1", "B3"), 1.99),
        q("pairwise", "B3", ("B1", "B3"), 2.0), q("pairwise", "B2", ("B1", "B2"), 1.5),
    ]  # fmt: skip
    guesses = [100, 300, 10, 25, None, 40, "B1", "B3", "B3", None]
    rows = {(row["probe"], row["metric"]): row for row in perception.score(asks, guesses, 2)}
    total = rows["total_size", "median_relative_error"]
    assert (total["value"], total["scored"], total["unparsed"]) == (1.25, 2, 0)  # of 0.5 and 2
    block = rows["block_size", "median_relative_error"]
    assert (block["value"], block["asked"], block["scored"], block["unparsed"]) == (0.2, 4, 3, 1)  # of 0, 1.5 and 0.2
    near = rows["pairwise", "accuracy_fraction_near"]
    assert (near["value"], near["asked"], near["scored"], near["unparsed"]) == (
        0.5,
        3,
        2,
        1,
    )  # a ratio of 2 is not near
    every = rows["pairwise", "accuracy_fraction_all"]
    assert (every["value"], every["asked"], every["scored"]) == (2 / 3, 4, 3)
    assert {row["value"] for row in perception.score(asks, [None] * 10, 2)} == {None}


def test_what_the_guessers_without_a_model_say() -> None:
    texts = ["x" * 40, "y" * 8, "z" * 20]
    sized = enumerate(zip(texts, (9, 4, 5), strict=True), start=1)
    found = Snapshot("snap", "", "", tuple(Block(f"B{i}", "tool_result", text, 0, None, n) for i, (text, n) in sized))
    by_chars, by_median = perception.guessers([found], 4).values()
    assert by_chars == {"snap": {"B1": 10, "B2": 2, "B3": 5}}
    assert by_median == {"snap": {"B1": 5, "B2": 5, "B3": 5}}
    assert perception.guessed(q("total_size", 18), by_chars["snap"]) == 17
    assert perception.guessed(q("block_size", 9, ("B1",)), by_chars["snap"]) == 10
    assert perception.guessed(q("pairwise", "B3", ("B2", "B3")), by_chars["snap"]) == "B3"
    assert perception.guessed(q("pairwise", "B3", ("B3", "B2")), by_median["snap"]) == "B2"  # all equal: the lower id
    eleven = {"B9": 1.0, "B11": 1.0}
    assert perception.guessed(q("pairwise", "B9", ("B11", "B9")), eleven) == "B9"


# ------------------------------------------------------------------------------------------- the run


def reads_the_dashboard(request: Request) -> str:
    """Looks every answer up in the dashboard, and has none where there is no dashboard."""
    ledger = request.messages[-2].content
    if "<context_workspace_status>" not in ledger:
        return "I cannot know."
    sizes = {line.split()[0]: int(line.split()[1]) for line in ledger.split("\n") if re.match(r"B\d+ ", line)}
    asked_for = re.findall(r"\bB\d+\b", request.messages[-1].content)
    if len(asked_for) == 2:
        larger = max(sorted(asked_for, key=lambda id: int(id[1:])), key=lambda id: sizes[id])
        return orjson.dumps({"larger": larger}).decode()
    return orjson.dumps({"tokens": sizes[asked_for[0]] if asked_for else sum(sizes.values())}).decode()


def test_who_reads_the_dashboard_makes_no_error_with_it_and_says_nothing_without(runs: Path, tmp_path: Path) -> None:
    engine = FakeEngine(reads_the_dashboard, window=8000)
    (sheet,) = perception.probe(asked(engine), runs, settings(snapshots=2), tmp_path)
    rows = sheet.data[sheet.data["by"] == "fake"].set_index(["dashboard", "probe", "metric"])
    for probe, metrics in perception.METRICS.items():
        for metric in metrics:
            right = rows.loc[("with", probe, metric)]
            assert right["value"] == (1 if probe == "pairwise" else 0)
            assert right["unparsed"] == 0
            assert rows.loc[("without", probe, metric)]["unparsed"] == rows.loc[("without", probe, metric)]["asked"] > 0
    body = sheet.body.set_index(["answers by", "dashboard"])
    assert body.loc[("fake", "without"), "unparsed"] == "22 of 22"
    assert body.loc[("fake", "with"), "unparsed"] == "0 of 22"
    assert list(body.index)[2:] == [("no model: characters / 4", "—"), ("no model: median block", "—")]
    assert any("lookup" in note for note in sheet.notes)
    assert not any("0.84" in cell for cell in body.to_numpy().ravel())  # the paper's numbers stay in a note
    # the file has all that the scores were made of
    answers = [orjson.loads(line) for line in (tmp_path / "perception/needle/fake/answers.jsonl").open("rb")]
    assert len(answers) == 44
    errors = [abs(a["guess"] - a["truth"]) / a["truth"] for a in answers if a["probe"] == "block_size" and a["guess"]]
    assert errors == [0.0] * 8
    shown = [orjson.loads(line) for line in (tmp_path / "perception/needle/fake/snapshots.jsonl").open("rb")]
    assert [each["tokens"] for each in shown] == [sum(words(b["text"]) for b in each["blocks"]) for each in shown]
    assert {path.suffix for path in tmp_path.glob("perception_needle.*")} == {".csv", ".md", ".tex"}


def test_every_call_is_unthinking_and_asks_for_the_json_of_its_question(runs: Path, tmp_path: Path) -> None:
    engine = FakeEngine(reads_the_dashboard, window=8000)
    perception.probe(asked(engine), runs, settings(snapshots=1), tmp_path)
    assert len(engine.requests) == 22
    for request in engine.requests:
        assert (request.thinking, request.max_tokens, request.grammar) == (False, settings().reply_tokens, None)
        assert request.schema
        assert request.schema["additionalProperties"] is False


def test_answers_on_file_are_not_asked_for_again(runs: Path, tmp_path: Path) -> None:
    engine = FakeEngine(reads_the_dashboard, window=8000)
    (first,) = perception.probe(asked(engine), runs, settings(snapshots=1), tmp_path)
    file = tmp_path / "perception/needle/fake/answers.jsonl"
    whole = file.read_bytes()
    again = FakeEngine(reads_the_dashboard, window=8000)
    (second,) = perception.probe(asked(again), runs, settings(snapshots=1), tmp_path)
    assert again.requests == []
    pd.testing.assert_frame_equal(first.data, second.data)
    file.write_bytes(whole[:-20])  # a torn last line is asked again
    perception.probe(asked(again), runs, settings(snapshots=1), tmp_path)
    assert len(again.requests) == 1
    assert len(file.read_bytes().splitlines()) == 22
    perception.probe(asked(again), runs, settings(snapshots=2), tmp_path)  # more of the same: only those
    assert len(again.requests) == 1 + 22
    # other words or another model are other questions
    other = settings(snapshots=1, system="Answer with JSON.")
    perception.probe(asked(again), runs, other, tmp_path)
    assert len(again.requests) == 1 + 22 + 22
    perception.probe(replace(asked(again), identity="other"), runs, settings(snapshots=1), tmp_path)
    assert len(again.requests) == 1 + 22 + 22 + 22


def test_a_question_that_broke_is_owed_and_the_others_are_kept(runs: Path, tmp_path: Path) -> None:
    broken = iter([True])

    def breaks_once(request: Request) -> str | Exception:
        return EngineError("no power") if next(broken, False) else reads_the_dashboard(request)

    engine = FakeEngine(breaks_once, window=8000)
    with pytest.raises(EngineError, match="1 of 22 questions: no power; run the same command again"):
        perception.probe(asked(engine), runs, settings(snapshots=1), tmp_path)
    assert not list(tmp_path.glob("perception_needle.*"))
    perception.probe(asked(engine), runs, settings(snapshots=1), tmp_path)
    assert len(engine.requests) == 22
    assert (tmp_path / "perception_needle.md").is_file()


def test_a_reply_cut_at_its_limit_is_unparsed(runs: Path, tmp_path: Path) -> None:
    engine = FakeEngine(lambda request: Reply('{"tokens": 1', "length", 9, 9, None, 0.0), window=8000)
    (sheet,) = perception.probe(asked(engine), runs, settings(snapshots=1), tmp_path)
    assert list(sheet.body["unparsed"])[:2] == ["11 of 11", "11 of 11"]
    assert list(sheet.body["total size: error"])[:2] == ["— (0)", "— (0)"]


def test_the_sheet_has_every_model_that_was_asked(runs: Path, tmp_path: Path) -> None:
    engine = FakeEngine(reads_the_dashboard, window=8000)
    perception.probe(asked(engine), runs, settings(snapshots=1), tmp_path)
    (sheet,) = perception.probe(replace(asked(engine), model="second"), runs, settings(snapshots=1), tmp_path)
    assert list(dict.fromkeys(sheet.body["tokens of"])) == ["fake", "second"]
    assert sum(note.startswith(("fake: 1 of 1", "second: 1 of 1")) for note in sheet.notes) == 2


# --------------------------------------------------------------------------------------- bad input


def test_an_engine_without_a_model_is_refused(capsys: pytest.CaptureFixture[str], runs: Path, tmp_path: Path) -> None:
    for words_ in ([], ["engine=mock"]):
        assert perception.main(["--runs", str(runs), "--tables", str(tmp_path), *words_]) == 2
        error = capsys.readouterr().err
        assert error.startswith(f"perception: engine={'mock' if words_ else 'scripted'}: has no model")
        assert error.count("\n") == 1
    assert not list(tmp_path.iterdir())


def test_runs_that_will_not_do_are_one_line(runs: Path, tmp_path: Path) -> None:
    with pytest.raises(RuntimeError, match="no runs here"):
        perception.probe(asked(FakeEngine([], window=8000)), tmp_path, settings(), tmp_path)
    with pytest.raises(RuntimeError, match="no episode here will do: needle: 0 of 5 snapshots, no blocks"):
        perception.probe(asked(FakeEngine([], window=400)), runs, settings(), tmp_path)


@pytest.mark.parametrize(
    ("key", "value", "complaint"),
    [
        ("snapshots", 0, "snapshots=0: must be a whole number of at least 1"),
        ("blocks_least", 4, "blocks_least=4: must be a whole number of at least 5"),
        ("pairs", 29, "pairs=29: must be a whole number from 1 to 28"),
        ("near", 1, "near=1: must be a number above 1"),
        ("ends_at", "archive", "ends_at=archive: must be a list of texts"),
        ("label", "$text", "label='$text': must be a text with exactly these places: $id, $text"),
        ("questions", {}, "questions.total_size=None"),
        ("paper", {}, "paper.total_size.without=None: must be two numbers"),
        ("dashboard", {"head": "x"}, "dashboard.head"),
    ],
)
def test_settings_that_will_not_do_are_one_line(key: str, value: Any, complaint: str) -> None:
    with pytest.raises(ConfigError) as fault:
        settings(**{key: value})
    assert complaint in str(fault.value)
    assert "\n" not in str(fault.value)


def test_a_settings_file_has_exactly_its_keys(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "probe.yaml"
    file.write_text("snapshots: 3\n")
    assert perception.main(["--settings", str(file)]) == 2
    assert "must have exactly these keys: snapshots, blocks_least" in capsys.readouterr().err
    assert perception.main(["--settings", str(tmp_path / "none.yaml")]) == 2
    assert perception.main(["--snapshots", "0"]) == 2
    assert Settings.read(COMMITTED, snapshots=29).snapshots == 29


@pytest.mark.parametrize(
    ("words_", "complaint"),
    [
        (["engine=abacus"], "engine=abacus: must be one of mock, replay, scripted, vllm"),
        (["enginee=vllm"], "enginee=vllm: there is no such key"),
        (["seed=-1"], "seed=-1: must be a whole number of at least 0"),
        (["engine=vllm", "model=scripted"], "not a language model"),
        (["experiment=a,b"], "one experiment at a time"),
        (["budget.completion_tokens=99999"], "budget.completion_tokens=99999: must be smaller than"),
    ],
)
def test_make_engine_complains_in_one_line(words_: list[str], complaint: str) -> None:
    with pytest.raises(ConfigError) as fault:
        make_engine(words_)
    assert complaint in str(fault.value)
    assert "\n" not in str(fault.value)


def test_make_engine_gives_the_engine_that_the_overrides_choose() -> None:
    engine, config = make_engine(["engine=mock", "model=scripted", "budget=tiny"])
    assert (engine.id, engine.model) == ("mock", "scripted")
    assert config["budget"]["window_tokens"] == 2048
    assert engine.count_text("one two three") == 3


def test_the_model_is_asked_greedily_unless_told_otherwise() -> None:
    for words_, temperature in (([], 0.0), (["model.sampling.no_thinking.temperature=0.7"], 0.7)):
        _, config = make_engine([*settings().overrides, "model=qwen3-8b", "engine=mock", *words_])
        assert config["engine"]["model"]["sampling"]["no_thinking"]["temperature"] == temperature


def test_the_papers_ranges_are_those_of_its_table() -> None:
    if not TABLE5.is_file():
        pytest.skip(f"no {TABLE5}")
    found: dict[tuple[str, str], list[float]] = {}
    with TABLE5.open() as file:
        for row in csv.DictReader(file):
            found.setdefault((row["probe"], row["dashboard"]), []).append(float(row["value"]))
    assert len(found) == 6
    for (probe, shown), values in found.items():
        assert list(settings().paper[probe][shown]) == [min(values), max(values)]  # type: ignore[index]


def test_the_tests_own_snapshots_are_messages_of_their_roles() -> None:
    _, asks, _ = asks_of(EIGHT)
    assert [message.role for message in asks[0].messages] == ["system", *["user", "assistant"] * 4, "user"]
    assert asks[0].messages[2] == Message("assistant", f"[B2]\n{'r ' * 3}")
