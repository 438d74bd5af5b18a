"""What a command would run: ``python -m arcbench.plan [-m] method=arc,vista seed=42,82 ...``, the arguments of
``python -m arcbench``.

Composes every cell, starts no engine and plays nothing. A row a cell: the tasks planned, those finished, those owed,
and about how many tokens the owed ones will take, from the mean of this cell's finished episodes or else of those of
its method under the same harness and budget (a dash where there are none yet). Exit status 2 when a cell cannot run.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from arcbench import cells
from arcbench.progress import Finished
from arcbench.records import EPISODES, digest, finished
from arcbench.runner.building import build, check_root, factory, one_line
from arcbench.runner.cell import run_folder
from arcbench.runner.overrides import cells_of
from arcbench.runner.session import BAD_INPUT, DONE
from arcbench.types import ConfigError, Json


@dataclass(frozen=True, slots=True, kw_only=True)
class Planned:
    """One cell: how many tasks it has, what is done of them; or why it cannot run."""

    words: str
    kin: tuple[str, ...] = ()
    """Harness, profile, budget and method: whose episodes are alike in size."""
    digest: str = ""
    planned: int = 0
    done: Mapping[str, Finished] | None = None
    fault: str = ""

    @property
    def owed(self) -> int:
        """Tasks that are still to be played."""
        return max(0, self.planned - len(self.done or ()))


def main(argv: Sequence[str] | None = None) -> int:
    """Print the plan and return the exit status."""
    words = [word for word in (sys.argv[1:] if argv is None else argv) if word not in ("-m", "--multirun")]
    if "--help" in words:
        print(__doc__)
        return DONE
    try:
        planned = list(plan(words))
    except ConfigError as fault:
        print(f"arcbench: {fault}", file=sys.stderr)
        return BAD_INPUT
    print(shown(planned))
    faults = [each for each in planned if each.fault]
    for each in faults:
        print(f"arcbench: {each.words}: {each.fault}", file=sys.stderr)
    return BAD_INPUT if faults else DONE


def plan(words: Sequence[str]) -> Iterable[Planned]:
    """Every cell of a command line, in the order in which they would run. Raises :class:`ConfigError` for what Hydra
    cannot read."""
    sizes: dict[str, set[str]] = {}
    for own, config in cells_of(words):
        named = " ".join(own)
        try:
            if isinstance(config, ConfigError):
                raise config
            with one_line("config"):
                check_root(config)
                factory(config["method"])
            tasks = _tasks(config, sizes)
            there = finished(run_folder(config) / EPISODES)
        except ConfigError as fault:
            yield Planned(words=named, fault=str(fault))
            continue
        yield Planned(
            words=named,
            kin=tuple(str(part) for part in (
                config["harness"]["id"], config["harness"].get("profile"), config["budget"]["id"],
                config["method"]["id"],
            )),
            digest=digest(config, config["digest_ignores"]),
            planned=len(tasks),
            done={task: each for task, each in there.items() if task in tasks},
        )  # fmt: skip


def _tasks(config: Mapping[str, Json], known: dict[str, set[str]]) -> set[str]:
    """The ids of a cell's tasks; drawn once for cells that share the harness."""
    key = repr(config["harness"])
    if key not in known:
        known[key] = {task.id for task in build(config["harness"]).tasks()}
    return known[key]


def shown(planned: Sequence[Planned]) -> str:
    """The plan as a table, with its sums. Cells that resolve to one run are owed once."""
    seen: dict[str, int] = {}
    rows: dict[str, list[str]] = {key: [] for key in ("#", "cell", "planned", "finished", "owed", "tokens, about")}
    owed, tokens, unknown = 0, 0, 0
    shared, names = cells.told([each.words for each in planned])
    for i, (each, name) in enumerate(zip(planned, names, strict=True), start=1):
        first = seen.setdefault(each.digest, i) if each.digest else i
        again = first != i
        estimate = _tokens(each, planned)
        cells_ = [str(i), name or "(the defaults)", f"{each.planned:,}", f"{len(each.done or ()):,}"]
        if each.fault:
            cells_ = [*cells_[:2], "-", "-", "cannot run", "-"]
        elif again:
            cells_ += [f"as {first}", "-"]
        else:
            owed += each.owed
            tokens += estimate or 0
            unknown += each.owed > 0 and estimate is None
            cells_ += [f"{each.owed:,}", "-" if estimate is None else f"{estimate:,}"]
        for key, cell in zip(rows, cells_, strict=True):
            rows[key].append(cell)
    total = f"{len(planned)} cell{'s' if len(planned) != 1 else ''}, {owed:,} episodes owed, about {tokens:,} tokens"
    if unknown:
        total += f", and those of {unknown} cells whose method has no finished episode yet"
    return f"{shared}{cells.table(rows, left=('cell',))}\n{total}"


def _tokens(cell: Planned, planned: Sequence[Planned]) -> int | None:
    """About how many tokens the owed episodes take; ``None`` where nothing like them was played."""
    if not cell.owed:
        return 0
    alike = cell.done or {}
    if not alike:
        alike = {
            f"{other.digest} {task}": each
            for other in planned if other.kin == cell.kin
            for task, each in (other.done or {}).items()
        }  # fmt: skip
    if not alike:
        return None
    mean = sum(each.prompt_tokens + each.completion_tokens for each in alike.values()) / len(alike)
    return round(cell.owed * mean)


if __name__ == "__main__":
    sys.exit(main())
