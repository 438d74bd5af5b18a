"""Does a model know the sizes of its own context? ``python -m analysis.perception engine=vllm model=qwen3-8b ...``.

VISTA's probe (Appendix I, Table 5). Snapshots of recorded episodes, as they were before anything left the view, are
shown to a model block by block, and it is asked how many tokens they have together, how many some of them have, and
which of two has more: each question in a call of its own, greedily, once without and once with a dashboard. The two
prompts differ by that one message. The overrides choose the engine as they do for ``python -m arcbench``.

Writes the sheet ``perception_<harness>``, and below ``perception/<harness>/<model>/`` what it is made of:
``snapshots.jsonl`` (the blocks with their sizes) and ``answers.jsonl`` (every question with its answer). Answers that
stand there already are not asked for again, so a run can be stopped and continued.

Sizes are tokens of a block's text, by the asked engine's own tokenizer. The exit status is 1 when a question could not
be asked, 2 for bad input, 130 after Ctrl-C.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

import orjson
from tqdm import tqdm

from analysis import render
from analysis.probe import Asked, Question, Settings, plan, read
from analysis.probe_scores import SCORES, scores, sheet
from analysis.render import Sheet
from analysis.settings import CONF
from analysis.snapshots import collect
from arcbench.records import RunError, digest, repair, replace_file, runs_below
from arcbench.types import ConfigError, ContextOverflow, EngineError, Json, Request

NO_MODEL = ("scripted", "replay", "mock")
"""Engines that know no answer."""
ANSWERS, SNAPSHOTS = "answers.jsonl", "snapshots.jsonl"


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command and return its exit status."""
    parser = argparse.ArgumentParser(
        prog="python -m analysis.perception", description="What a model knows of the sizes of its own context."
    )
    parser.add_argument("--runs", type=Path, default=Path("results/runs"), help="folder below which all runs are read")
    parser.add_argument("--tables", type=Path, default=Path("results/tables"), help="folder for sheets and answers")
    parser.add_argument("--settings", type=Path, default=CONF / "perception/probe.yaml", help="numbers and texts")
    parser.add_argument("--snapshots", type=int, help="of each harness (default: as in the settings)")
    parser.add_argument(
        "overrides", nargs="*", metavar="KEY=VALUE", help="what chooses the engine: engine=vllm model=..."
    )
    args = parser.parse_intermixed_args(argv)
    try:
        settings = Settings.read(args.settings, snapshots=args.snapshots)
        probe(chosen(args.overrides, settings), args.runs, settings, args.tables)
    except (ConfigError, RunError, OSError) as fault:
        return _complain(fault, 2)
    except EngineError as fault:
        return _complain(fault, 1)
    except KeyboardInterrupt:
        return _complain("stopped; run the same command again to go on from here", 130)
    return 0


def _complain(line: object, status: int) -> int:
    print(f"perception: {' '.join(str(line).split())}", file=sys.stderr)
    return status


def chosen(overrides: Sequence[str], settings: Settings) -> Asked:
    """The engine that the overrides choose, not started. Raises :class:`ConfigError`."""
    from arcbench.runner.building import make_engine  # the one place that knows Hydra

    engine, config = make_engine([*settings.overrides, *overrides])
    if engine.id in NO_MODEL:
        raise ConfigError(
            f"engine={engine.id}: has no model that could be asked; choose one, such as engine=vllm model=smollm2-135m"
        )
    return Asked(
        engine=engine,
        model=config["model"]["id"],
        window_tokens=config["budget"]["window_tokens"],
        identity=digest({key: config[key] for key in ("engine", "model")}, config["digest_ignores"]),
        temperature=config["model"]["sampling"]["no_thinking"]["temperature"],
    )


def probe(asked: Asked, runs: Path, settings: Settings, tables: Path) -> list[Sheet]:
    """Take the snapshots, ask, score, and write all of it. Raises :class:`EngineError` when a question could not
    be asked, :class:`RunError` when there is nothing to ask about."""
    found = collect(runs_below(runs), blocks_least=settings.blocks_least, ends_at=settings.ends_at)
    plans = [plan(harness, those, asked, settings) for harness, those in found.items()]
    if not any(each.snapshots for each in plans):
        raise RunError(f"{runs}: no episode here will do: {'; '.join(f'{p.harness}: {p.about}' for p in plans)}")
    for each in (each for each in plans if not each.snapshots):
        print(f"perception: harness={each.harness}: nothing to ask about: {each.about}", file=sys.stderr)
    plans = [each for each in plans if each.snapshots]
    folders = {each.harness: tables / "perception" / each.harness / asked.model for each in plans}
    for each in plans:
        folders[each.harness].mkdir(parents=True, exist_ok=True)
        replace_file(folders[each.harness] / SNAPSHOTS, b"".join(map(_line, each.shown())))
    asyncio.run(ask_all({folders[each.harness] / ANSWERS: each.questions for each in plans}, asked))
    sheets = []
    for each in plans:
        folder = folders[each.harness]
        rows = scores(each, given(folder / ANSWERS), asked, settings)
        scored = {"model": asked.model, "about": f"{asked.model}: {each.about}", "rows": rows}
        replace_file(folder / SCORES, orjson.dumps(scored, option=orjson.OPT_INDENT_2))
        sheets.append(sheet(each.harness, folder.parent, settings))
        print(render.markdown(sheets[-1]))
        for path in (*render.write(sheets[-1], tables), folder / ANSWERS, folder / SNAPSHOTS):
            print(f"wrote {path}")
    return sheets


async def ask_all(files: Mapping[Path, Sequence[Question]], asked: Asked) -> None:
    """Ask what has no answer yet, as many at once as the engine wants; each answer is written as it comes.

    Raises :class:`EngineError` at the end when some could not be asked: they are owed.
    """
    owed: list[tuple[Path, int, Question]] = []
    total = 0
    for path, questions in files.items():
        repair(path)
        done = given(path)
        owed.extend((path, i, each) for i, each in enumerate(questions, start=1) if each.key not in done)
        total += len(questions)
    if not owed:
        return
    await asked.engine.start()
    broken: list[str] = []
    queue = iter(owed)
    try:
        with tqdm(total=total, initial=total - len(owed), desc=f"perception {asked.model}", unit="q") as bar:

            async def worker() -> None:
                for path, index, each in queue:
                    try:
                        answer = await put(each, index, asked)
                    except (EngineError, ContextOverflow) as fault:
                        broken.append(str(fault))
                    else:
                        with path.open("ab") as file:
                            file.write(_line(answer))
                    bar.update()
                    await asyncio.sleep(0)  # an engine that never waits must not starve Ctrl-C

            async with asyncio.TaskGroup() as group:
                for _ in range(min(asked.engine.concurrency, len(owed))):
                    group.create_task(worker())
    finally:
        await asked.engine.close()
    if broken:
        raise EngineError(f"{len(broken)} of {total} questions: {broken[0]}; run the same command again to ask them")


async def put(each: Question, number: int, asked: Asked) -> dict[str, Json]:
    """Ask one question. Raises as :meth:`arcbench.types.Engine.complete`."""
    reply = await asked.engine.complete(
        Request(
            messages=each.messages,
            max_tokens=each.max_tokens,
            thinking=False,
            episode=each.snapshot,
            number=number,
            seed=int(each.key[:7], 16),
            schema=each.schema,
        )
    )
    return {
        "key": each.key,
        "snapshot": each.snapshot,
        "dashboard": "with" if each.dashboard else "without",
        "probe": each.probe,
        "blocks": each.blocks,
        "question": each.text,
        "truth": each.truth,
        "guess": read(each, reply.text),
        "text": reply.text,
        "finish": reply.finish,
        "prompt_tokens": reply.prompt_tokens,
        "cached_tokens": reply.cached_tokens,
        "completion_tokens": reply.completion_tokens,
        "latency_s": reply.latency_s,
    }


def given(path: Path) -> dict[str, str]:
    """The raw answers in a file, by key; a torn or broken line is passed over."""
    answers: dict[str, str] = {}
    if path.exists():
        for line in path.read_bytes().split(b"\n"):
            try:
                answer = orjson.loads(line)
                answers[answer["key"]] = answer["text"]
            except (orjson.JSONDecodeError, KeyError, TypeError):
                continue
    return answers


def _line(value: Json) -> bytes:
    return orjson.dumps(value, option=orjson.OPT_APPEND_NEWLINE)


if __name__ == "__main__":
    sys.exit(main())
