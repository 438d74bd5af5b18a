"""How often each paired test finds a difference where there is none: ``python -m analysis.paired_simulation``.

Generator: method m succeeds on task t under each of ``n_seeds`` seeds with logit ``mean_logit + u_t + v_tm``, where u
is normal with ``task_sd`` (how easy the task is for everyone) and v normal with ``interaction_sd`` (how it suits this
method). Seeds are nested: given u and v they are independent tries of the same task. Both methods draw v from one
distribution, so on the whole they are equally good and every rejection is an error. With ``interaction_sd`` above 0
the tries of one task agree in what the methods differ in, which tests that take pairs as independent do not see.
``conf/statistics/simulation.yaml`` has the numbers. Exit status 2 with one line on standard error for bad input.
"""

from __future__ import annotations

import argparse
import functools
import math
import sys
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, fields
from pathlib import Path

import numpy as np
import pandas as pd
from scipy import special

from analysis import paired, render, settings
from analysis.paired import Clusters, Counts
from analysis.render import Sheet, number
from analysis.settings import CONF
from arcbench.checks import share, whole
from arcbench.types import ConfigError

SIMULATION = CONF / "statistics/simulation.yaml"
POOLED = {
    "McNemar, corrected": paired.chi_square,
    "exact, two-sided": paired.exact_two_sided,
    "mid-p": paired.mid_p,
}
CLUSTERED = {
    "Durkalski": paired.durkalski,
    "Obuchowski": paired.obuchowski,
    "cluster sign-flip": paired.sign_flip,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Design:
    """One table's worth of simulations; see the module, and ``alpha`` is the nominal type I error."""

    n_tasks: int
    n_seeds: int
    mean_logit: float
    task_sd: float
    interaction_sd: Sequence[float]
    alpha: float
    n_simulations: int
    seed: int

    def __post_init__(self) -> None:
        for key in ("n_tasks", "n_seeds", "n_simulations"):
            whole(key, getattr(self, key), 1)
        whole("seed", self.seed, 0)
        share("alpha", self.alpha)
        strengths = self.interaction_sd if isinstance(self.interaction_sd, list | tuple) else ()
        for key, value in (("task_sd", self.task_sd), *(("interaction_sd", sd) for sd in strengths or (None,))):
            if not isinstance(value, int | float) or isinstance(value, bool) or not 0 <= value < math.inf:
                raise ConfigError(f"{key}={value}: must be at least 0 (interaction_sd: a list of such)")

    @property
    def error(self) -> float:
        """Monte Carlo error: the SD of a rejection rate whose expectation is ``alpha``."""
        return math.sqrt(self.alpha * (1 - self.alpha) / self.n_simulations)

    @classmethod
    def read(cls, path: Path) -> Design:
        """From a YAML file. Raises :class:`ConfigError`, ``OSError``."""
        return cls(**settings.read(path, [field.name for field in fields(cls)]))


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command and return its exit status."""
    parser = argparse.ArgumentParser(
        prog="python -m analysis.paired_simulation", description="Type I error of the paired tests."
    )
    parser.add_argument("--settings", type=Path, default=SIMULATION, help="numbers of the generator")
    parser.add_argument("--tables", type=Path, help="folder that the table is also written to")
    args = parser.parse_args(argv)
    try:
        sheet = table(Design.read(args.settings))
        print(render.markdown(sheet))
        for path in render.write(sheet, args.tables) if args.tables else ():
            print(f"wrote {path}")
    except (ConfigError, OSError) as fault:
        print(" ".join(str(fault).split("\n")), file=sys.stderr)
        return 2
    return 0


def rejections(design: Design, interaction_sd: float) -> dict[str, float]:
    """The fraction of simulations in which each test of :data:`POOLED` and :data:`CLUSTERED` rejects."""
    rng = np.random.default_rng([design.seed, round(1000 * interaction_sd)])
    shape = (design.n_simulations, design.n_tasks)
    ease = design.mean_logit + rng.normal(0, design.task_sd, shape)
    a, b = (
        rng.binomial(1, special.expit(ease + rng.normal(0, interaction_sd, shape)), (design.n_seeds, *shape))
        for _ in range(2)
    )
    n_a_only, n_b_only = (a > b).sum(axis=0), (b > a).sum(axis=0)  # by simulation and task

    @functools.cache  # these depend on two small numbers only
    def pooled(n_a_only: int, n_b_only: int) -> list[str]:
        n_equal = design.n_tasks * design.n_seeds - n_a_only - n_b_only
        counts = Counts(n_a_only=n_a_only, n_b_only=n_b_only, n_both=0, n_neither=n_equal)
        return [name for name, test in POOLED.items() if test(counts).p <= design.alpha]

    n = np.full(design.n_tasks, design.n_seeds)
    rejected: Counter[str] = Counter()
    for a_only, b_only in zip(n_a_only, n_b_only, strict=True):
        clusters = Clusters(n=n, n_a_only=a_only, n_b_only=b_only)
        rejected.update(pooled(int(a_only.sum()), int(b_only.sum())))
        rejected.update(name for name, test in CLUSTERED.items() if test(clusters).p <= design.alpha)
    return {name: rejected[name] / design.n_simulations for name in (*POOLED, *CLUSTERED)}


def table(design: Design) -> Sheet:
    """One row for each strength of the interaction, rejection rates in percent."""
    rows = [{"interaction_sd": float(sd)} | rejections(design, sd) for sd in design.interaction_sd]
    data = pd.DataFrame([{k: v if k == "interaction_sd" else 100 * v for k, v in row.items()} for row in rows])
    body = data.map(number).rename(columns={"interaction_sd": "interaction SD"})
    alpha, error = 100 * design.alpha, 100 * design.error
    return Sheet(
        name="paired_type_one_error",
        title=f"Type I error of the paired tests, %, nominally {alpha:g}",
        lead=(
            f"{design.n_simulations:,} simulations a row of {design.n_tasks} tasks under {design.n_seeds} seeds, two "
            f"methods that are equally good: success has the logit {design.mean_logit:g}, plus one normal draw a task "
            f"(SD {design.task_sd:g}) and one a task and method (the interaction).",
        ),
        data=data.rename(columns=lambda name: name.lower().replace(", ", "_").replace("-", "_").replace(" ", "_")),
        body=body,
        text_columns=frozenset(),
        notes=(
            f"The Monte Carlo error of a rate of {alpha:g} % is {error:.2f}; of as many rates as stand here, some lie "
            f"two of it away by chance, hardly one three: {alpha - 3 * error:.2f} to {alpha + 3 * error:.2f}.",
            f"{', '.join(POOLED)} take pairs as independent; {', '.join(CLUSTERED)} take the task as the unit.",
        ),
    )


if __name__ == "__main__":
    sys.exit(main())
