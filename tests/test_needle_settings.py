"""The needle harness: settings and texts, and what is said of bad ones."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest
from needles import BUDGET, ROOT, SHIPPED, make
from omegaconf import OmegaConf

from arcbench.types import ConfigError, Task
from harness.needle import Needle
from harness.needle_settings import TEXT_PLACES


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"n_tasks": -1}, "harness.n_tasks=-1: must be a whole number of at least 1"),
        ({"n_tasks": 0}, "harness.n_tasks=0: must be a whole number of at least 1"),
        ({"n_tasks": 1000.0}, "harness.n_tasks=1000.0: must be a whole number of at least 1"),
        ({"n_tasks": True}, "harness.n_tasks=True: must be a whole number of at least 1"),
        ({"seed": -1}, "seed=-1: must be a whole number of at least 0"),
        ({"profile": "loose"}, "harness.profile=loose: must be one of strict, lenient, paper"),
        ({"noise": "numbers"}, "harness.noise=numbers: must be one of codes, words"),
        ({"guidance": "full"}, "harness.guidance=full: must be one of none, next_command"),
        ({"reveal": "middle"}, "harness.reveal=middle: must be one of start, end"),
        ({"reveal": "end"}, "harness.reveal=end: must be start with needles=1, whose file announces it"),
        ({"position": "first", "needles": 2}, "harness.position=first: must be one of random, even"),
        ({"needles": 0}, "harness.needles=0: must be a whole number from 1 to 16"),
        ({"needles": 17}, "harness.needles=17: must be a whole number from 1 to 16"),
        ({"needles": 3, "profile": "paper"}, "harness.needles=3: must be a whole number from 1 to 2"),
        ({"noise_lines_per_side": 0}, "harness.noise_lines_per_side=0: must be a whole number from 2 to 45"),
        ({"noise_lines_per_side": 46}, "harness.noise_lines_per_side=46: must be a whole number from 2 to 45"),
        ({"noise_line_chars": 40}, "harness.noise_line_chars=40: must be a whole number of at least 62"),
        ({"noise_line_chars": None}, "harness.noise_line_chars=None: must be a whole number of at least 62"),
        ({"turn_limit": 17}, "harness.turn_limit=17: must be a whole number of at least 18"),
        ({"call_limit": 20}, "harness.call_limit=20: must be a whole number of at least 26"),
        ({"refusals_limit": 0}, "harness.refusals_limit=0: must be a whole number of at least 1"),
        ({"page__chars": 8001}, "harness.page.chars=8001: must be a whole number from 400 to 8000"),
        ({"page__chars": 100}, "harness.page.chars=100: must be a whole number from 400 to 8000"),
        ({"page__log_share": 1.5}, "harness.page.log_share=1.5: must be a number from 0 to 1"),
        (
            {"needles": 2, "page__chars": 679},
            "harness.page.chars=679: must be a whole number from 680 to 8000",
        ),
        ({"page__lines": 3}, "harness.page.lines=3: unknown key, must be one of chars, log_share"),
        ({"material__pool_lines": 1000}, "harness.material.pool_lines=1000: must be a power of two"),
        (
            {"profiles__strict__work_orders": [6, 2]},
            "harness.profiles.strict.work_orders=[6, 2]: must be a whole number of at least 1, or [least, most]",
        ),
        (
            {"profiles__strict__work_orders": 0},
            "harness.profiles.strict.work_orders=0: must be a whole number of at least 1, or [least, most]",
        ),
        (
            {"profiles__strict__submit_early": "maybe"},
            "harness.profiles.strict.submit_early=maybe: must be one of refused, accepted, ends",
        ),
        ({"profiles__strict__rereadable": 1}, "harness.profiles.strict.rereadable=1: must be true or false"),
        ({"profiles__strict": None}, "harness.profiles.strict=None: must be a mapping"),
        ({"profiles": None}, "harness.profiles=None: must be a mapping"),
        ({"read": "half"}, "harness.read=half: must be one of whole, parts"),
        ({"id": None}, "harness.id=None: must be a text"),
        ({"limits": None}, "harness.limits=None: must be a mapping"),
        ({"limits__preview": None}, "harness.limits.preview=None: must be a whole number of at least 1"),
        ({"limits__fixture_above": "500"}, "harness.limits.fixture_above=500: must be a whole number of at least 1"),
        ({"shell": None}, "harness.shell=None: must be a mapping"),
        ({"shell__pipes": 1}, "harness.shell.pipes=1: unknown key, must be one of commands, regex_timeout_s"),
        ({"shell__commands": ["ls"]}, "harness.shell.commands=['ls']: must have cat, which opens the file"),
        ({"manual": None}, "harness.manual=None: must be a text"),
        ({"manual": 3}, "harness.manual=3: must be a text"),
        ({"code_margin": 0}, "harness.code_margin=0: must be a whole number of at least 2"),
        ({"value_chars": 0}, "harness.value_chars=0: must be a whole number of at least 1"),
        # 51 values and 16 codes of a task, 1,000 times, of 30 symbols
        ({"value_chars": 1}, "harness.value_chars=1: must be a whole number of at least 4"),
        ({"value_chars": 3}, "harness.value_chars=3: must be a whole number of at least 4"),
        ({"code_chars": 2}, "harness.code_chars=2: must be a whole number of at least 3"),
        ({"value_chars": 15, "alphabet": "AB"}, "harness.value_chars=15: must be a whole number of at least 16"),
        ({"alphabet": "AB"}, "harness.code_chars=6: must be a whole number of at least 14"),
        *(
            (
                {"alphabet": value},
                f"harness.alphabet={value!r}: must be at least 2 different letters and digits (ASCII)",
            )
            for value in ("", "A", "ABCA", "AB C", "AB$", "ABÄ", "A²", None, 234567, ["A", "B"])
        ),
        *(
            (
                {"file_name": value},
                f"harness.file_name={value!r}: must be a plain path of letters, digits and . _ - /",
            )
            for value in (
                "my secrets.txt",
                "",
                "-n",
                "./a",
                "/a",
                "a//b",
                "a/",
                "../a",
                "a;b",
                "a*",
                "ä",
                "a\nb",
                None,
                3,
            )
        ),
    ],
)
def test_a_bad_value_is_one_line(changes: Mapping[str, Any], message: str) -> None:
    with pytest.raises(ConfigError) as caught:
        make(**changes)
    assert str(caught.value) == message


@pytest.mark.parametrize("path", TEXT_PLACES)
def test_each_text_is_checked_at_the_start_with_its_places(path: str) -> None:
    key = f"texts.{path}"
    text = OmegaConf.select(SHIPPED, key)
    allowed = ", ".join(f"${place}" for place in TEXT_PLACES[path]) or "none"
    wrong = [None, " ", 7, ["a"], text + "$other", text + " 5 $"]
    wrong += [text.replace(f"${place}", "") for place in TEXT_PLACES[path]]
    for value in wrong:
        with pytest.raises(ConfigError) as caught:
            make(**{key.replace(".", "__"): value})
        assert str(caught.value).startswith(f"harness.{key}=")
        assert str(caught.value).endswith(f": must be a text with exactly these places: {allowed}")
        assert "\n" not in str(caught.value)


def test_no_text_is_without_its_check() -> None:
    flat = {f"{group}.{name}" for group, names in SHIPPED.texts.items() if not isinstance(names, str) for name in names}
    assert flat | {name for name, text in SHIPPED.texts.items() if isinstance(text, str)} == set(TEXT_PLACES)


@pytest.mark.parametrize(
    ("key", "value", "message"),
    [
        ("texts", None, "harness.texts=None: must be a mapping"),
        ("texts.notices", None, "harness.texts.notices=None: must be a mapping"),
        ("texts.prompt", "Go.", "harness.texts.prompt='Go.': must be a mapping"),
        ("texts.early.never", "x", "harness.texts.early.never=x: unknown key, must be one of refused, accepted, ends"),
        ("material", None, "harness.material=None: must be a mapping"),
        ("material.log", None, "harness.material.log=None: must be a mapping"),
        ("material.prose", ["a"], "harness.material.prose=['a']: must be a mapping"),
        ("material.log.shapes", None, "harness.material.log.shapes=None: must be a list of texts"),
        ("material.log.level", "INFO", "harness.material.log.level='INFO': must be a list of texts"),
        ("material.log.level", [], "harness.material.log.level=[]: must be a list of texts"),
        ("material.log.status", ["200", 404], "harness.material.log.status[1]=404: must be a text"),
        ("material.prose.who", [None], "harness.material.prose.who[0]=None: must be a text"),
        ("material.orders", None, "harness.material.orders=None: must be a list of texts"),
        ("material.noise", [""], "harness.material.noise[0]='': must be a text"),
        ("material.date", None, "harness.material.date=None: must be a text"),
        ("material.pool_lines", None, "harness.material.pool_lines=None: must be a whole number from 2 to 65536"),
        (
            "material.paragraph_sentences",
            0,
            "harness.material.paragraph_sentences=0: must be a whole number of at least 1",
        ),
        (
            "material.log",
            {"shapes": ["$time $level $nobody"], "level": ["INFO"]},
            "harness.material.log.shapes[0]='$time $level $nobody': must be a text with no places but "
            "$time, $hex, $num, $ms, $level",
        ),
        ("material.prose.shapes", ["costs 5 $"], "harness.material.prose.shapes[0]='costs 5 $': must be a text with no "
         "places but $time, $hex, $num, $ms, $when, $who, $did, $what, $where, $after, $why"),
    ],
)  # fmt: skip
def test_a_bad_text_or_list_is_one_line_at_the_start(key: str, value: object, message: str) -> None:
    config = OmegaConf.to_container(OmegaConf.create({"budget": BUDGET, "harness": SHIPPED}), resolve=False)
    changed: Any = config["harness"]  # type: ignore[index, call-overload]
    changed.update(n_tasks=3, seed=0, page={"chars": 3650, "log_share": 0.35})
    changed["limits"] |= {"fixture_above": 500, "fixture_below": 8000, "page_most": 8000}
    changed.pop("_target_")
    changed.pop("_convert_")
    at = changed
    *parents, last = key.split(".")
    for parent in parents:
        at = at[parent]
    at[last] = value
    with pytest.raises(ConfigError) as caught:
        Needle(**changed)
    assert str(caught.value) == message


@pytest.mark.parametrize(
    "changes", [{"alphabet": "01", "value_chars": 16, "code_chars": 14}, {"value_chars": 4}, {"code_chars": 3}]
)
def test_the_least_lengths_that_are_allowed_give_tasks_at_once(changes: Mapping[str, Any]) -> None:
    needle = make(**changes)
    for task in needle.tasks():
        assert needle.secrets(task).count(f"NEEDLE={task.facts['value']}") == 1
        assert len(set(task.facts["codes"])) == 16


def test_numbers_that_others_own_are_theirs() -> None:
    raw: Any = OmegaConf.to_container(SHIPPED, resolve=False)
    assert raw["limits"]["fixture_above"] == "${budget.keep_verbatim_chars}"
    assert raw["limits"]["fixture_below"] == raw["limits"]["page_most"] == "${budget.presentation_limit_chars}"
    # a method may show less of the file's ends than the harness reckons with, never more
    previews = {
        path.stem: method["preview_chars"]
        for path in (ROOT / "conf" / "method").glob("*.yaml")
        if "preview_chars" in (method := OmegaConf.load(path))
    }
    assert "arc" in previews
    assert max(previews.values()) <= SHIPPED.limits.preview
    needle = make()
    for task in needle.tasks():
        before, _, after = needle.secrets(task).partition(task.facts["value"])
        assert min(len(before), len(after)) > max(previews.values())


def test_the_manifest_says_what_was_built() -> None:
    assert make().describe() == {"profile": "strict", "work_orders": [16, 16], "fixture_chars": 4480}
    assert make(profile="paper", needles=2).describe() == {
        "profile": "paper",
        "work_orders": [2, 6],
        "fixture_chars": 0,
    }


def test_limits_are_those_of_the_design() -> None:
    needle = make()
    assert (needle.id, needle.turn_limit, needle.call_limit, needle.refusals_limit) == ("needle", 26, 60, 3)
    task: Task = needle.task(2)
    assert needle.open(task).counters()["orders_done"] == 0
