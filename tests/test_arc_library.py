"""ARC as a library: the page's examples, the budget, recalls as agents write them, restarts."""

from __future__ import annotations

import asyncio
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from arcbench.arc import ArcContext, SqliteStore
from arcbench.arc.catalog import OccurrenceStore
from arcbench.arc.library import CONF, finish
from arcbench.arc.store import Record, Store
from arcbench.types import ConfigError, ContextOverflow

ROOT = Path(__file__).resolve().parents[1]
EXAMPLE, RESTART = re.findall(r"^```python\n(.*?)^```$", (ROOT / "docs/arc.md").read_text("utf-8"), re.M | re.S)
PORT = "\n".join(f"# gateway setting {i}\nsetting_{i} = {i * 7919 % 1000}" for i in range(60)).replace(
    "setting_30 = 570", "port = 8471"
)


def count_tokens(message: Mapping[str, str]) -> int:
    return len(message["content"]) // 3 + 4


def size(messages: list[dict[str, str]]) -> int:
    return sum(map(count_tokens, messages))


def context(tokens: int = 2000, **given: Any) -> ArcContext:
    made = ArcContext(count=count_tokens, budget_tokens=tokens, **given)
    made.add("system", f"Reply with one command.\n{made.instructions}")
    made.add("user", "Find the port.")
    return made


def look(into: ArcContext, command: str, body: str | bytes, **more: Any) -> None:
    into.add("assistant", command)
    into.add("user", body, **more)


def records(of: ArcContext) -> list[Record]:
    """What its store in memory holds."""
    store = of.method.store  # type: ignore[attr-defined]
    return list(store.records if isinstance(store, OccurrenceStore) else store._records.values())


class Agent:
    """Reads the gateway's settings first and many logs after them, and then wants the port."""

    def __init__(self) -> None:
        self.prompts: list[list[dict[str, str]]] = []
        self.ran: list[str] = []

    def ask_model(self, messages: list[dict[str, str]]) -> str:
        self.prompts.append(messages)
        if len(self.ran) < 13:
            return f"cat log{len(self.ran)}" if self.ran else "cat gateway.conf"
        if port := re.search(r"^port = (\d+)$", messages[-1]["content"], re.M):
            return f"answer {port[1]}"
        cited = re.search(r"§(\w+) `cat gateway.conf`", "\n".join(m["content"] for m in messages))
        assert cited
        return f"_recall §{cited[1]}"

    def run(self, command: str) -> str:
        self.ran.append(command)
        return PORT if command == "cat gateway.conf" else f"{command}: nothing to see here\n" * 90

    def names(self) -> dict[str, Any]:
        return {"count_tokens": count_tokens, "ask_model": self.ask_model, "run": self.run}


# ------------------------------------------------------------------------------------- the page


def test_the_example_keeps_within_its_budget_and_recalls() -> None:
    assert "port = 8471" in PORT
    agent = Agent()
    names = agent.names()
    exec(EXAMPLE, names)
    assert names["command"] == "answer 8471"
    assert max(map(size, agent.prompts)) <= 6000
    assert [m["role"] for m in agent.prompts[-1]][:4] == ["system", "user", "assistant", "user"]
    asked, answered = agent.prompts[-2:]
    assert not any("port = 8471" in m["content"] for m in asked)
    assert answered[-1]["content"].endswith(PORT)
    assert agent.ran.count("cat gateway.conf") == 1


def test_the_restart_example_recalls_what_a_killed_process_saw(tmp_path: Path) -> None:
    code = (
        RESTART
        + f'context.add("assistant", "cat gateway.conf")\ncontext.add("user", {PORT!r})\nos.kill(os.getpid(), 9)'
    )
    first = f"import os\ndef count_tokens(message): return len(message['content']) // 3 + 4\n{code}"
    done = subprocess.run([sys.executable, "-c", first], cwd=tmp_path, env=os.environ | {"PYTHONPATH": str(ROOT)})
    assert done.returncode == -9
    names: dict[str, Any] = {"count_tokens": count_tokens}
    here = Path.cwd()
    os.chdir(tmp_path)
    try:
        exec(RESTART, names)
    finally:
        os.chdir(here)
    again = names["context"]
    line = again.messages()[1]["content"].splitlines()[-1]
    assert re.fullmatch(r"§[0-9a-f]{8} `cat gateway.conf`", line)
    answer = again.recall(f"_recall {line[:9]}")
    assert answer.endswith(PORT)
    look(again, "ls", "x")
    assert [record.steps for record in names["store"].latest(2)] == [[0], [2]]
    names["store"].close()


# ----------------------------------------------------------------------------------- the budget

TEXTS = st.one_of(
    st.text(max_size=40),
    st.builds(
        lambda text, n: text * n,
        st.sampled_from(["word ", "§ab12cd34 ", "🧭", "```\n", "e\u0301"]),
        st.integers(0, 9000),
    ),
)
STEPS = st.lists(
    st.tuples(st.sampled_from(["add", "add", "add", "recall", "show"]), TEXTS, st.integers(0, 50)), max_size=25
)


@settings(max_examples=40, deadline=None)
@given(STEPS, st.sampled_from([(400, "arc"), (1500, "arc"), (6000, "arc_select"), (3000, "arc_paged")]))
def test_messages_fit_or_say_that_they_cannot_and_no_body_is_lost(
    steps: list[tuple[str, str, int]], setting: tuple[int, str]
) -> None:
    tokens, method = setting
    made = context(tokens, method=method, recall_max_chars=tokens // 3)
    bodies: dict[str, str] = {}
    for kind, text, number in steps:
        if kind == "add":
            bodies[f"cat {len(bodies)}"] = text
            look(made, f"cat {len(bodies) - 1}", text)
        elif kind == "recall":
            ids = [record.id for record in records(made)] or ["00000000"]
            assert made.recall(f"_recall{'_start' * (method == 'arc_paged')} §{ids[number % len(ids)]}")
        else:
            try:
                shown = made.messages()
            except ContextOverflow:  # the citations alone can be too many for the smallest budget
                assert tokens == 400
                continue
            assert size(shown) <= tokens
            assert [m["role"] for m in shown[:2]] == ["system", "user"]
    assert {record.signature: record.body for record in records(made)} == bodies


def test_a_result_larger_than_the_budget_is_shown_in_part_and_comes_back_from_the_store() -> None:
    made = context(1000)
    body = "".join(f"line {i}\n" for i in range(3000))
    look(made, "cat big", body)
    shown = made.messages()
    assert size(shown) <= 1000
    assert "characters left out" in shown[-1]["content"]
    assert shown[-1]["content"].startswith("line 0\n")
    assert shown[-1]["content"].endswith("line 2999\n")
    for i in range(4):
        look(made, f"cat {i}", f"{i} and more " * 100)
    assert re.search(r"§\w+ `cat big`", "\n".join(m["content"] for m in made.messages()))
    assert [record.body for record in records(made) if record.signature == "cat big"] == [body]


def test_one_day_the_citations_of_arc_fill_the_budget_and_those_of_arc_paged_do_not() -> None:
    arc, paged = context(2000), context(2000, method="arc_paged", recall_max_chars=800)
    for i in range(150):
        for each in (arc, paged):
            look(each, f"cat {i}", f"{i} and so on " * 60)
            if each is paged or i < 40:
                assert size(each.messages()) <= 2000
    with pytest.raises(ContextOverflow, match=r"^\d+ prompt \+ 0 completion > 2000 window tokens$"):
        arc.messages()


# ------------------------------------------------------------------------------------- messages


def test_messages_are_what_was_added_while_they_fit() -> None:
    made = ArcContext(count=count_tokens, budget_tokens=4000)
    said = [("system", "s"), ("user", "u"), ("assistant", "ls"), ("tool", "a b"), ("assistant", "cat a")]
    for i, (role, text) in enumerate(said):
        made.add(role, text)
        assert made.messages() == [
            {"role": role.replace("tool", "user"), "content": text} for role, text in said[: i + 1]
        ]


def test_a_message_out_of_turn_is_refused_in_one_line() -> None:
    made = ArcContext(count=count_tokens, budget_tokens=4000)
    with pytest.raises(ConfigError, match="^role=tool: must be one of system, user, assistant$"):
        made.add("tool", "x")
    made.add("user", "u")
    made.add("assistant", "ls")
    with pytest.raises(ConfigError, match="^role=assistant: must be one of user, tool$"):
        made.add("assistant", "ls")
    made.add("tool", "x")
    with pytest.raises(ConfigError, match="^role=user: must be one of assistant$"):
        made.add("user", "y")
    assert [m["content"] for m in made.messages()] == ["u", "ls", "x"]


@pytest.mark.parametrize(
    ("reply", "command", "signed"),
    [
        ("cat a", None, "cat a"),
        ("I look.\n```sh\ncat a\n```", None, "cat a"),
        ("<think>```\nrm x\n```</think>I look.\n```\ncat a\n```", None, "cat a"),
        ("", "grep -n port a", "grep -n port a"),
        ("I look.", "line one\nline two \ud83d", "line one\nline two \\ud83d"),
        ("I look.", "", ""),
    ],
)
def test_what_signs_for_a_result(reply: str, command: str | None, signed: str) -> None:
    made = context()
    made.add("assistant", reply)
    made.add("user", "the result", command=command, returncode=3)
    (record,) = records(made)
    assert (record.signature, record.body, record.returncode) == (signed, "the result", 3)


def test_bytes_that_are_no_text_are_kept_escaped() -> None:
    made = context()
    look(made, "cat odd", b"a\x00\xff")
    assert made.messages()[-1] == {"role": "user", "content": "a\x00\\xff"}
    look(made, "cat none", "")
    assert made.messages()[-1]["content"] == "(no output)"


# -------------------------------------------------------------------------------------- recalls


@pytest.mark.parametrize(
    "form", ["_recall §{}", "_recall [{}].", "Let me see.\n```\n_recall §{}\n```", "<think>hm</think>\n _recall {} "]
)
def test_a_recall_is_answered_and_added(form: str) -> None:
    made = context()
    look(made, "cat gateway.conf", PORT[:900])
    id = records(made)[0].id
    reply = form.format(id)
    answer = made.recall(reply)
    assert answer
    assert answer == f"Recalled §{id} `cat gateway.conf`, 900 characters:\n{PORT[:900]}"
    assert made.messages()[-2:] == [{"role": "assistant", "content": reply}, {"role": "user", "content": answer}]
    made.add("assistant", "_recall_meta §" + id)  # a reply that was added already is not added again
    meta = made.recall("_recall_meta §" + id)
    assert meta
    assert "Recalled 1 times." in meta
    assert [m["role"] for m in made.messages()].count("assistant") == 3


@pytest.mark.parametrize(
    ("command", "answered"),
    [
        ("_recall", "takes exactly one id"),
        ("_recall §00000000 §11111111", "takes exactly one id"),
        ("_recall §00000000", "There is no observation §00000000. The nearest ids: none."),
        ("cat a", None),
        ("I would use _recall §00000000", None),
        ("_recall §00000000\ncat a", None),
        ("```\n_recall §00000000\n```\nand then", None),
        ("<think>_recall §00000000</think>", None),
        ("", None),
    ],
)
def test_what_is_no_recall_is_left_to_the_caller(command: str, answered: str | None) -> None:
    made = context()
    before = made.messages()
    answer = made.recall(command)
    assert (answer is None) == (answered is None)
    assert (made.messages() == before) == (answered is None)
    if answered:
        assert answer
        assert answered in answer


def test_a_restart_counts_on_and_knows_the_old_ids(tmp_path: Path) -> None:
    with SqliteStore(tmp_path / "a.sqlite") as store:
        look(context(store=store), "cat a", "A" * 600)
        id = store.latest(1)[0].id
    with SqliteStore(tmp_path / "a.sqlite") as store:
        made = context(store=store)
        look(made, "cat a", "A" * 600)
        assert made.recall(f"_recall {id}")
        look(made, "cat b", "B")
        assert made.recall(f"_recall_meta {id}")
        assert made.messages()[-1]["content"].endswith("Seen at turns: 1, 2. Recalled 1 times.")
        assert store.latest(1)[0].steps == [3]


# ------------------------------------------------------------------------------------ arguments


@pytest.mark.parametrize(
    ("given", "named"),
    [
        ({"budget_tokens": 0}, "budget_tokens=0: must be a whole number of at least 1"),
        ({"method": "llm_summary"}, "method=llm_summary: must be one of arc, arc_paged, arc_select"),
        ({"window_tokens": 5}, "budget=window_tokens: must be one of keep_recent_turns, "),
        ({"keep_recent_turns": 0}, "budget.keep_recent_turns=0: must be a whole number of at least 1"),
        ({"conf": "/none"}, "conf=/none: must be the project's conf folder; it has no config.yaml"),
        (
            {"method": "arc_paged", "store": Store()},
            "method=arc_paged: must be arc, or a variant of it, to use a store",
        ),
        ({"method": "arc_paged"}, "budget.recall_max_chars=8000: a chunk of 2000 tokens "),
    ],
)
def test_a_bad_argument_is_named_in_one_line(given: dict[str, Any], named: str) -> None:
    with pytest.raises(ConfigError, match=f"^{re.escape(named)}") as caught:
        ArcContext(**{"count": count_tokens, "budget_tokens": 4000} | given)
    assert "\n" not in str(caught.value)


def test_a_task_that_leaves_no_room_is_refused() -> None:
    made = ArcContext(count=count_tokens, budget_tokens=3000, recall_max_chars=1200, method="arc_paged")
    made.add("user", "long " * 600)
    made.messages()
    with pytest.raises(ConfigError, match="^budget_tokens=3000: too few beside a task of 1004 tokens$"):
        made.add("assistant", "ls")


def test_texts_and_numbers_are_those_of_the_conf_folder() -> None:
    with tempfile.TemporaryDirectory() as folder:
        shutil.copytree(CONF, Path(folder) / "conf")
        arc = Path(folder) / "conf/method/arc.yaml"
        arc.write_text(arc.read_text("utf-8").replace("Recalled §$id", "HERE IS §$id"), "utf-8")
        made = context(conf=Path(folder) / "conf")
    look(made, "ls", "x")
    id = records(made)[0].id
    assert made.recall(f"_recall {id}") == f"HERE IS §{id} `ls`, 1 characters:\nx"


def test_a_method_that_waits_for_something_is_not_left_hanging() -> None:
    with pytest.raises(RuntimeError, match="needs the episode loop"):
        finish(asyncio.sleep(0))


def test_the_library_imports_neither_hydra_nor_an_engine() -> None:
    code = "import sys, arcbench.arc; print(*sys.modules)"
    env = os.environ | {"PYTHONPATH": str(ROOT)}
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=env, check=True).stdout
    assert "arcbench.arc.library" in loaded.split()
    heavy = ("hydra", "omegaconf", "torch", "pandas", "harness", "baselines", "arcbench.engines", "arcbench.episode")
    assert [module for module in loaded.split() if module.startswith(heavy)] == []


def test_the_benchmark_prints_a_row_for_each_size_and_store() -> None:
    script = [sys.executable, str(ROOT / "scripts/bench_arc_store.py")]
    env = os.environ | {"PYTHONPATH": str(ROOT)}
    done = subprocess.run([*script, "--sizes", "100", "300"], capture_output=True, text=True, env=env, check=True)
    rows = [line.split(" | ") for line in done.stdout.splitlines() if line.startswith("| ")]
    assert [len(row) for row in rows] == [7, 7, 7, 7, 7, 4, 4, 4]
    assert [row[:2] for row in rows[1:5]] == [[f"| {s}", n] for s in ("in memory", "SQLite") for n in ("100", "300")]
    assert 1 < float(rows[2][-1].strip(" |")) < 1.3
    bad = subprocess.run([*script, "--sizes", "5"], capture_output=True, text=True, env=env)
    assert (bad.returncode, bad.stderr) == (2, "--sizes=[5] --chars=4096: at least 100 and 1000\n")
