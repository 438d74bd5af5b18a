"""One process: the cells of its command line one after the other, the engine that is alive, the exit status."""

from __future__ import annotations

import asyncio
import contextlib
import os
import sys
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import cast

import hydra
import orjson
from hydra.core.hydra_config import HydraConfig
from omegaconf import DictConfig, OmegaConf

from arcbench import cells
from arcbench.cells import End
from arcbench.records import RunError, RunFolder
from arcbench.runner.cell import Cell, last_session, refuse_other_data, run_episodes
from arcbench.runner.overrides import ROOT, UNREADABLE, expanded, explain_hydra, overrides_of, refuse_experiment_list
from arcbench.types import ConfigError, Engine, Json

DONE, FAILED, BAD_INPUT, STOPPED = 0, 1, 2, 130
"""Exit statuses: all well; an episode or a cell ended in an error; bad input; interrupted."""


def main() -> int:
    """Run the cell (or, with ``-m``, the cells) that the command line describes; returns the exit status."""
    os.environ["HYDRA_FULL_ERROR"] = "1"  # Hydra then raises instead of printing and leaving
    sys.argv[1:] = sorted(sys.argv[1:], key=lambda word: word not in ("-m", "--multirun"))  # argparse wants it first
    session = Session()
    try:
        refuse_experiment_list(overrides_of(sys.argv[1:]))
        with session:
            hydra.main(version_base="1.3", config_path=str(ROOT / "conf"), config_name="config")(session.cell)()
            session.sum_up()
    except ConfigError as fault:
        session.complain(str(fault), BAD_INPUT)
    except UNREADABLE as fault:
        session.complain(explain_hydra(fault, sys.argv[1:]), BAD_INPUT)
    except KeyboardInterrupt:
        with contextlib.suppress(ConfigError):
            session.not_reached([" ".join(words) for words in expanded(sys.argv[1:])[0]])
        session.sum_up()
        session.complain("stopped; run the same command again to go on from here", STOPPED)
    return session.status


class Session:
    """One process: its event loop, the one engine that is alive, and how its cells ended."""

    def __init__(self) -> None:
        self.status = DONE
        self.ends: list[End] = []
        self._entered = False
        self._loop = asyncio.Runner()
        self._engine: Engine | None = None
        self._engine_config: Mapping[str, Json] | None = None

    def __reduce__(self) -> tuple[type[Session], tuple[()]]:
        """A launcher that runs cells elsewhere sends them there with a session of their own."""
        return Session, ()

    def __enter__(self) -> Session:
        self._entered = True
        return self

    def __exit__(self, *_: object) -> None:
        with contextlib.suppress(KeyboardInterrupt):
            self._loop.run(self._close_engine())
            self._loop.close()

    def complain(self, line: str, status: int) -> None:
        """One line on standard error, and a status that is not zero."""
        print(f"arcbench: {line}", file=sys.stderr)
        self.status = max(self.status, status)

    def cell(self, cfg: DictConfig) -> None:
        """Run one cell. A cell that cannot run says so and leaves the other cells of a sweep alone."""
        if not self._entered:  # in a process of its own, where it is the only one
            with self:
                return self.cell(cfg)
        words = " ".join(HydraConfig.get().overrides.task) if HydraConfig.initialized() else ""
        try:
            cell = Cell.compose(cast(dict[str, Json], OmegaConf.to_container(cfg, resolve=True)))
            owed, summary = self._loop.run(self._run(cell))
        except ConfigError as fault:
            self.complain(str(fault), BAD_INPUT)
            self.ends.append(End(words=words, state=cells.FAILED))
        except RunError as fault:
            self.complain(str(fault), FAILED)
            self.ends.append(End(words=words, state=cells.FAILED))
        except KeyboardInterrupt:
            self.ends.append(End(words=words, state=cells.OWED))
            raise
        else:
            print(orjson.dumps(summary).decode(), flush=True)
            state = cells.FAILED if summary["error"] else cells.DONE if owed else cells.SKIPPED
            self.ends.append(
                End(
                    words=words, state=state, planned=summary["planned"], finished=summary["run"],
                    correct=summary["correct"], errors=summary["error"],
                )
            )  # fmt: skip
            if summary["error"]:
                self.complain(
                    f"{summary['error']} episodes ended in an error; run the same command again to redo them", FAILED
                )

    def not_reached(self, words: Sequence[str]) -> None:
        """Of all cells of a sweep, in order, those that never began are owed."""
        self.ends += [End(words=each, state=cells.OWED) for each in words[len(self.ends) :]]

    def sum_up(self) -> None:
        """How the cells of a sweep ended, on standard error."""
        if len(self.ends) > 1:
            print(cells.summary(self.ends), file=sys.stderr)

    async def _run(self, cell: Cell) -> tuple[int, dict[str, Json]]:
        """How many tasks were owed, and the summary."""
        with RunFolder(cell.run_dir, cell.config, cell.config["digest_ignores"]) as folder:
            manifest = folder.manifest()
            refuse_other_data(manifest, cell.harness.describe(), cell.run_dir)
            tasks = cell.harness.tasks()
            owed = [task for task in tasks if task.id not in folder.finished]
            errors: Counter[str] = Counter()
            engine = await self._started_engine(cell) if owed else cell.engine
            if owed or not manifest:
                folder.write_manifest(cell.manifest(manifest, engine, len(tasks)))
            if owed:
                started, before = time.monotonic(), len(folder.finished)
                try:
                    errors = await run_episodes(cell.setup(engine), owed, folder, cell.timeout_s, len(tasks))
                finally:  # a session that is killed says nothing of its time
                    played = {
                        "played_s": round(time.monotonic() - started, 3),
                        "episodes": len(folder.finished) - before,
                    }
                    with contextlib.suppress(RunError):
                        folder.write_manifest(last_session(folder.manifest(), played))
            return len(owed), cell.summary(tasks, folder.finished, sum(errors.values()))

    async def _started_engine(self, cell: Cell) -> Engine:
        """The engine of this cell: the living one where its config is the same, started again, so that it forgets
        the cell before."""
        if self._engine is None or self._engine_config != cell.config["engine"]:
            await self._close_engine()
            await cell.engine.start()
            self._engine, self._engine_config = cell.engine, cell.config["engine"]
        else:
            await self._engine.start()
        return self._engine

    async def _close_engine(self) -> None:
        if self._engine is not None:
            engine, self._engine = self._engine, None
            await engine.close()
