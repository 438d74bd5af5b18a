"""The examples of docs/extend.md: played by the commands that the page names, with the outcomes worked out."""

from __future__ import annotations

import asyncio
import re
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from bench import PREFIX, Bench, budget, turn
from fakes import compose

from analysis import arc_tables, cost, figures, ledger, overhead, serving, tables
from arcbench.records import load
from arcbench.runner.cell import Cell
from arcbench.runner.overrides import cells_of
from arcbench.types import Action, ConfigError
from examples.observation_masking import ObservationMasking

ROOT = Path(__file__).resolve().parent.parent
PAGE = (ROOT / "docs/extend.md").read_text("utf-8")
CONF = ["--config-dir", str(ROOT / "examples/conf")]
MASK = "[The answer to `$command` ($chars characters) was removed.]"


def command(*words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, *words], cwd=ROOT, capture_output=True, text=True, timeout=240)


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Both harnesses with the example method and two known ones."""
    folder = tmp_path_factory.mktemp("examples") / "runs"
    words = ["method=observation_masking,sliding_window,arc", "harness=needle,letter", "harness.n_tasks=2"]
    done = command("-m", "arcbench", "-m", *CONF, *words, f"results_dir={folder}")
    assert done.returncode == 0, done.stderr
    return folder


# ---------------------------------------------------------------------------------------------- the page


def test_the_code_on_the_page_is_the_files_own():
    quoted = re.findall(r"^```(python|yaml) (\S+)\n(.*?)^```", PAGE, re.S | re.M)
    assert {name for _, name, _ in quoted} == {
        "examples/observation_masking.py", "examples/conf/method/observation_masking.yaml",
        "examples/letter.py", "examples/conf/harness/letter.yaml",
    }  # fmt: skip
    for _, name, text in quoted:
        source = (ROOT / name).read_text("utf-8")
        for part in re.split(r"^ *# \.\.\.\n", text, flags=re.M):
            assert part.strip("\n") in source, (name, part)


def test_the_commands_on_the_page_run(tmp_path):
    lines = [line for block in re.findall(r"^```sh\n(.*?)^```", PAGE, re.S | re.M) for line in block.splitlines()]
    ours = [line for line in lines if line.startswith("python -m arcbench")]
    assert len(ours) >= 4
    for line in ours:
        words = shlex.split(line.partition("#")[0])[1:]
        done = command(*words, "harness.n_tasks=1", f"results_dir={tmp_path / 'runs'}")
        assert done.returncode == 0, (line, done.stderr)


def test_the_page_s_look_at_an_episode(runs):
    (block,) = re.findall(r"^```python\n(.*?)^```", PAGE, re.S | re.M)
    done = command("-c", block.replace('"results/runs"', repr(str(runs / "needle"))))
    assert done.returncode == 0, done.stderr
    assert "no_answer (gave_up), 18 calls, 3 compactions" in done.stdout
    assert "[The answer to `cat secrets.txt` (4" in done.stdout


# ------------------------------------------------------------------------------------------ the method


def masking(bench: Bench) -> ObservationMasking:
    method = ObservationMasking(id="observation_masking", promise="x", bench=bench, variant=None, mask=MASK)
    assert method.begin(PREFIX) is None
    return method


def test_a_compaction_masks_what_is_older_than_the_recent_turns():
    method = masking(Bench(budget(4000, 100, keep_verbatim_chars=30)))
    long = "word " * 40
    for index in range(6):
        asyncio.run(method.observe(turn(index, long if index else "short", f"look {index}")))
    before = len(method.view())
    done = asyncio.run(method.compact("forced"))
    shown = [message.content for message in method.view()]
    assert len(shown) == before
    assert shown[2:4] == ["```sh\nlook 0\n```", "short"]
    assert shown[5] == "[The answer to `look 1` (200 characters) was removed.]"
    assert shown[-1] == long
    assert set(done.fates) == {(index, part) for index in range(6) for part in ("reply", "result")}
    assert [index for (index, _), fate in done.fates.items() if fate == "dropped"] == [1, 2]


def test_a_second_compaction_masks_only_what_is_whole_and_an_overflow_frees_room():
    method = masking(Bench(budget(900, 100)))
    for index in range(12):
        asyncio.run(method.observe(turn(index, "word " * 60, f"look {index}")))
        if method.bench.count(method.view()) > method.bench.budget.usable_tokens:
            asyncio.run(method.compact("overflow"))
            assert method.bench.count(method.view()) <= method.bench.budget.compact_to_tokens
    assert sorted(method.masked) == list(range(len(method.masked)))


def test_bad_texts_and_keys_are_one_line():
    done = command("-m", "arcbench", *CONF, "method=observation_masking", "method.mask=gone", "harness.n_tasks=1")
    assert done.returncode == 2
    assert done.stderr == ("arcbench: method.mask='gone': must be a text with exactly these places: $command, $chars\n")


BROKEN = {
    "gone": (
        "_target_: examples.nothing.Nope\n_partial_: true",
        "broken: _target_=examples.nothing.Nope: No module named",
    ),
    "no_class": ("_target_: examples.letter.Nope\n_partial_: true", "broken: _target_=examples.letter.Nope: "),
    "no_target": ("_partial_: true", "broken: _target_=None: must be the class, such as my_module.MyClass"),
    "no_partial": (
        "_target_: examples.observation_masking.ObservationMasking",
        "method=broken: _partial_=None: must be true",
    ),
    "no_mask": ("_target_: examples.observation_masking.ObservationMasking\n_partial_: true", "argument: 'mask'"),
    "no_yaml": ("a: b: c", "broken.yaml: mapping values are not allowed here"),
    "our_id": ("id: arc", "broken.yaml: id=arc is one of ours; give yours another"),
    "no_name": ("id: a/b", "method.id=a/b: must be a name of letters, digits, '_', '.' and '-'"),
    "number": ("variant: 5", "method.variant=5: must be null, or a text that tells methods of one id apart"),
    "no_mapping": (None, "method=['a list']: must be one of arc, "),
}


@pytest.mark.parametrize("fault", BROKEN)
def test_a_file_of_one_s_own_that_is_wrong_is_one_line(tmp_path, fault):
    text, said = BROKEN[fault]
    path = tmp_path / "my conf/method/broken.yaml"
    path.parent.mkdir(parents=True)
    head = "" if "id:" in (text or "") else "id: broken\n"
    head += "" if "variant:" in (text or "") else "variant: null\n"
    path.write_text(f"{head}promise: x\n{text}\n" if text else "- a list", "utf-8")
    words = ["--config-dir", str(tmp_path / "my conf"), "method=broken", "harness.n_tasks=1", f"results_dir={tmp_path}"]
    done = command("-m", "arcbench", *words)
    assert done.returncode == 2
    assert done.stderr.startswith("arcbench: ")
    assert said in done.stderr
    assert done.stderr.count("\n") == 1
    planned = command("-m", "arcbench.plan", *words)
    assert planned.returncode == (0 if fault == "no_mask" else 2)  # a plan makes no method
    assert "Traceback" not in planned.stderr


def test_a_name_of_ours_is_refused(tmp_path):
    (tmp_path / "method").mkdir()
    (tmp_path / "method/arc.yaml").write_text("id: arc\n", "utf-8")
    for module in ("arcbench", "arcbench.plan"):
        done = command("-m", module, "--config-dir", str(tmp_path), "method=arc")
        assert (done.returncode, done.stderr) == (
            2, f"arcbench: --config-dir={tmp_path}: method=arc is one of ours; give yours another name\n",
        )  # fmt: skip


# ----------------------------------------------------------------------------------------- the harness


def letter(**changes: Any) -> Any:
    words = [f"harness.{key}={value}" for key, value in changes.items()]
    return Cell.compose(composed("harness=letter", *words)).harness


def composed(*words: str) -> dict[str, Any]:
    (_, config), = cells_of([*CONF, *words])  # fmt: skip
    if isinstance(config, ConfigError):
        raise config
    return config


def test_tasks_follow_from_seed_and_index():
    few, many = letter(n_tasks=2).tasks(), letter(n_tasks=5).tasks()
    assert list(few) == list(many[:2])
    seals = {task.facts["value"] for task in many}
    assert len(seals) == 5
    assert letter(n_tasks=2, errands=15).tasks()[0].prompt != few[0].prompt


def test_an_episode_from_the_letter_to_the_seal():
    harness = letter(n_tasks=1, errands=2)
    (task,) = harness.tasks()
    played = harness.open(task)

    def answer(text: str) -> Any:
        name, _, argument = text.partition(" ")
        return played.answer(Action(name, argument, text), {})

    first = answer("cat letter.txt").observation.text
    assert first.splitlines()[1] == f"NEEDLE={task.facts['value']}"
    assert first.endswith(f"NEXT CODE: {task.facts['codes'][0]}")
    assert answer("head letter.txt").observation.returncode == 1  # burnt
    assert answer("submit NEEDLE=x").ending is None
    assert answer("next WRONG").observation.returncode == 1
    assert answer(f"next {task.facts['codes'][0]}").observation.returncode == 0
    assert "ALL WORK ORDERS DONE" in answer(f"next {task.facts['codes'][1]}").observation.text
    assert answer("submit x").observation.returncode == 2
    last = answer(f"submit NEEDLE={task.facts['value']}")
    assert (last.ending, last.submission) == ("submitted", task.facts["value"])
    assert played.counters() == {"errands_done": 2, "early_submissions": 1}
    record = {"ending": "submitted", "submission": last.submission, "facts": task.facts}
    assert harness.score(record).correct
    assert not harness.score(record | {"submission": "x"}).correct


@pytest.mark.parametrize(
    ("word", "said"),
    [
        ("harness.errands=0", "harness.errands=0: must be a whole number of at least 1"),
        ("harness.turn_limit=3", "harness.turn_limit=3: must be a whole number of at least 18"),
        ("harness.texts.next=x", "harness.texts.next='x': must be a text with exactly these places: $code"),
        ("+harness.pages=3", "pages"),
    ],
)
def test_bad_settings_are_named(word, said):
    with pytest.raises(ConfigError) as fault:
        Cell.compose(composed("harness=letter", word))
    assert said in str(fault.value)
    assert "\n" not in str(fault.value)


# ---------------------------------------------------------------------------------------- what follows


def test_what_is_known_of_the_fact_decides(runs):
    found = load(runs).episodes.groupby(["harness", "method"])["outcome"].agg(list).to_dict()
    for harness in ("needle", "letter"):
        assert found[harness, "arc"] == ["correct"] * 2
        assert found[harness, "sliding_window"] == found[harness, "observation_masking"] == ["no_answer"] * 2
    facts = ledger.read(runs).facts
    masked = facts[facts["run_dir"].str.contains("observation_masking")]
    assert set(masked["cause"]) == {"lost"}
    assert set(masked["left_call"]) == {5.0}


def test_with_room_for_everything_the_letter_is_answered():
    cell = Cell.compose(composed("harness=letter", "budget=ample", "method=full_context", "harness.n_tasks=1"))
    from arcbench.episode import play

    record = asyncio.run(play(cell.harness.tasks()[0], cell.setup(cell.engine)))
    assert (record["outcome"], record["compactions"]) == ("correct", [])


@pytest.mark.parametrize(
    "module", [tables, ledger, figures, overhead, cost, serving, arc_tables], ids=lambda m: m.__name__
)
def test_every_table_takes_a_method_and_a_harness_of_one_s_own(runs, tmp_path, module, capsys):
    assert module.main(["--runs", str(runs), "--tables", str(tmp_path / "tables")]) == 0
    said = capsys.readouterr().out
    assert "letter" in said or module is arc_tables


def test_a_new_method_stands_behind_the_known_ones(runs, tmp_path, capsys):
    assert tables.main(["--runs", str(runs), "--tables", str(tmp_path)]) == 0
    rows = [line.split(",") for line in (tmp_path / "mechanism_letter.csv").read_text("utf-8").splitlines()]
    at = rows[0].index("method")
    assert [row[at] for row in rows[1:]] == ["sliding_window", "arc", "observation_masking"]


def test_the_plan_knows_what_stands_outside(runs):
    words = ["method=observation_masking", "harness=letter", "harness.n_tasks=3", f"results_dir={runs}"]
    done = command("-m", "arcbench.plan", *CONF, *words)
    assert done.returncode == 0, done.stderr
    assert re.search(r"3 +2 +1 ", done.stdout)
    gone = command("-m", "arcbench.plan", "--config-dir", "nowhere", *words)
    assert (gone.returncode, gone.stderr) == (2, "arcbench: --config-dir=nowhere: no such folder\n")


def test_fakes_compose_knows_nothing_of_the_examples():
    with pytest.raises(Exception, match="observation_masking"):
        compose("method=observation_masking")
