"""What is simulated of the make-room instance, and what must hold of it: the cells behind ``analysis.vista_theory``."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from analysis import settings as files
from analysis.make_room import (
    ROUNDING,
    Floats,
    Places,
    bits_at_stake,
    blocks_lost,
    bucket_count,
    bucket_sizes,
    ledger_bits,
    ledger_law,
    list_bound,
    lower_bound,
    moments,
    signal_information_bound,
    signal_law,
    simulate_ledger,
    simulate_signal,
    unavailable_bound,
    upper_bound,
)
from arcbench.checks import above, whole
from arcbench.types import ConfigError

# --------------------------------------------------------------------------------------- settings


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """The numbers of the simulation (``conf/theory/vista.yaml`` says what each is)."""

    blocks: tuple[int, ...]
    kappas: tuple[int, ...]
    bits_step: float
    sigmas: tuple[float, ...]
    restorable: int
    trials: int
    standard_errors: float
    seed: int

    def __post_init__(self) -> None:
        for key, values in (("blocks", self.blocks), ("kappas", self.kappas), ("sigmas", self.sigmas)):
            if not isinstance(values, tuple) or not values or len({*map(str, values)}) < len(values):
                raise ConfigError(f"{key}={_shown(values)}: must be a list of numbers, each once")
        for n in self.blocks:
            whole("blocks", n, 1)
            for kappa in self.kappas:
                bits_at_stake(n, kappa)
        for key, value in (("bits_step", self.bits_step), *(("sigmas", sigma) for sigma in self.sigmas)):
            above(key, value, 0)
            if value == math.inf:
                raise ConfigError(f"{key}={value}: must be a number above 0")
        errors = self.standard_errors
        if isinstance(errors, bool) or not isinstance(errors, int | float) or not 0 <= errors < math.inf:
            raise ConfigError(f"standard_errors={errors}: must be a number of at least 0")
        whole("restorable", self.restorable, 0)
        whole("trials", self.trials, 2)
        whole("seed", self.seed, 0)

    @classmethod
    def read(cls, path: Path) -> Settings:
        """From a YAML file. Raises :class:`ConfigError`, ``OSError``."""
        given = files.read(path, [field.name for field in fields(cls)])
        values: dict[str, Any] = {k: tuple(v) if isinstance(v, list) else v for k, v in given.items()}
        return cls(**values)

    def rng(self, *cell: int) -> np.random.Generator:
        """Randomness of one cell: the same whatever other cells there are."""
        return np.random.default_rng([self.seed, *cell])


def _shown(values: object) -> object:
    return list(values) if isinstance(values, tuple) else values


# ------------------------------------------------------------------------------------------ cells


@dataclass(frozen=True, slots=True, kw_only=True)
class Claim:
    """One inequality, ``low <= high``, which a simulation may miss by ``tolerance``."""

    name: str
    low: float
    high: float
    tolerance: float = 0.0

    @property
    def holds(self) -> bool:
        """Whether it does; never with a value that is not a number."""
        return self.low <= self.high + self.tolerance + ROUNDING


@dataclass(frozen=True, slots=True)
class Cell:
    """What was simulated (``place``), a row of its sheet, and what must hold of it."""

    place: str
    row: Mapping[str, Any]
    claims: tuple[Claim, ...]

    def violations(self) -> list[Claim]:
        """The claims that do not hold."""
        return [claim for claim in self.claims if not claim.holds]


LedgerSimulation = Callable[[int, int, int, np.random.Generator], Places]
SignalSimulation = Callable[[int, int, float, int, np.random.Generator], tuple[Places, Floats]]


def ledger_cells(settings: Settings, simulate: LedgerSimulation = simulate_ledger) -> list[Cell]:
    """A cell for each n, kappa and nominal rate."""
    cells = []
    for n in settings.blocks:
        for kappa in settings.kappas:
            for index, bits in enumerate(_rates(n, settings.bits_step)):
                places = simulate(n, bucket_count(bits, n), settings.trials, settings.rng(0, n, kappa, index))
                cells.append(_ledger_cell(n, kappa, bits, places, settings))
    return cells


def signal_cells(settings: Settings, simulate: SignalSimulation = simulate_signal) -> list[Cell]:
    """A cell for each n, kappa and sigma."""
    cells = []
    for n in settings.blocks:
        for kappa in settings.kappas:
            for index, sigma in enumerate(settings.sigmas):
                drawn = simulate(n, kappa, sigma, settings.trials, settings.rng(1, n, kappa, index))
                cells.append(_signal_cell(n, kappa, sigma, *drawn, settings))
    return cells


def _rates(n: int, step: float) -> list[float]:
    full = math.log2(n)
    return [*(i * step for i in range(math.ceil((full - ROUNDING) / step))), full]


def _ledger_cell(n: int, kappa: int, bits: float, places: Places, settings: Settings) -> Cell:
    buckets = bucket_count(bits, n)
    rate = ledger_bits(n, buckets)
    law = ledger_law(n, buckets, kappa)
    row, claims = _losses(n, kappa, places, law, rate, 0.0, settings)
    upper = upper_bound(n, buckets)
    slack = _least_list_slack(n, buckets)
    row |= {"z_lower": lower_bound(rate, n, kappa), "z_upper": upper, "z_upper_loose": n / (2 * buckets)}
    row |= {"list_least_slack_bits": slack}
    missed = settings.standard_errors * row["z_se"]
    claims += [
        Claim(name="H(Y) <= log2 M", low=rate, high=math.log2(buckets)),
        Claim(name="log2 M <= nominal bits", low=math.log2(buckets), high=bits),
        Claim(name="Theorem 1: floor <= mean Z", low=row["z_lower"], high=row["z_mean"], tolerance=missed),
        Claim(name="Theorem 1: floor <= exact E[Z]", low=row["z_lower"], high=row["z_exact"]),
        Claim(name="Appendix D: mean Z <= (ceil(n/M) - 1)/2", low=row["z_mean"], high=upper, tolerance=missed),
        Claim(name="Appendix D: exact E[Z] <= (ceil(n/M) - 1)/2", low=row["z_exact"], high=upper),
        Claim(name="Appendix D: (ceil(n/M) - 1)/2 <= n/(2M)", low=upper, high=row["z_upper_loose"]),
        Claim(name="Lemma 1, lists of any size: 0 <= least slack", low=0.0, high=slack),
    ]
    key = {"blocks": n, "kappa": kappa, "bits": bits, "buckets": buckets, "bits_true": rate}
    return _cell(f"ledger n={n} kappa={kappa} bits={bits:g}", key | row, claims)


def _signal_cell(n: int, kappa: int, sigma: float, places: Places, entropies: Floats, settings: Settings) -> Cell:
    open_bits, information_se = _mean(entropies)
    information = math.log2(n) - open_bits
    bound = signal_information_bound(n, kappa, sigma)
    row, claims = _losses(n, kappa, places, signal_law(n, kappa, sigma), information, information_se, settings)
    row |= {"information_bits": information, "information_se": information_se, "information_bound_bits": bound}
    row |= {"z_lower": lower_bound(bound, n, kappa)}
    # the floor at the information that W really has: a tighter one
    row |= {"z_lower_measured": lower_bound(max(0.0, information), n, kappa)}
    allowed, slope = settings.standard_errors, kappa / bits_at_stake(n, kappa)
    both = row["z_se"] + slope * information_se
    claims += [
        Claim(
            name="Proposition 2: information <= bound", low=information, high=bound, tolerance=allowed * information_se
        ),
        Claim(
            name="Theorem 1 at Proposition 2's bits: floor <= mean Z",
            low=row["z_lower"], high=row["z_mean"], tolerance=allowed * row["z_se"],
        ),
        Claim(
            name="Theorem 1 at the measured bits: floor <= mean Z",
            low=row["z_lower_measured"], high=row["z_mean"], tolerance=allowed * both,
        ),
    ]  # fmt: skip
    key = {"blocks": n, "kappa": kappa, "sigma": sigma}
    return _cell(f"signal n={n} kappa={kappa} sigma={sigma:g}", key | row, claims)


def _losses(
    n: int, kappa: int, places: Places, law: Floats, bits: float, bits_se: float, settings: Settings
) -> tuple[dict[str, Any], list[Claim]]:
    """What both kinds of cell have: Z against its exact law, blocks that stay gone, and Lemma 1 at lists of kappa.

    ``bits`` is what is known about J*, ``bits_se`` its standard error.
    """
    lost = blocks_lost(places, kappa)
    mean, se = _mean(lost)
    exact, spread = moments(law)
    gone, gone_se = _mean(np.maximum(lost - settings.restorable, 0))
    floor = unavailable_bound(exact, settings.restorable)
    held, held_se = _mean(places <= kappa)
    missing, room = math.log2(n) - bits, list_bound(held, kappa, n)
    trials, allowed = len(places), settings.standard_errors
    row = {
        "trials": trials, "z_mean": mean, "z_se": se, "z_exact": exact,
        "restorable": settings.restorable, "unavailable_mean": gone, "unavailable_se": gone_se,
        "unavailable_floor": floor,
        "list_holds": held, "list_missing_bits": missing, "list_bound_bits": room,
    }  # fmt: skip
    # A mean of very rare losses is no sum of many: one trial, which can add kappa/trials, is always allowed.
    off = allowed * spread / math.sqrt(trials) + kappa / trials
    claims = [
        Claim(name="simulation: |mean Z - exact E[Z]| = 0", low=abs(mean - exact), high=0.0, tolerance=off),
        Claim(name="restoring: E[Z] - r <= mean unavailable", low=floor, high=gone, tolerance=allowed * gone_se),
        Claim(
            name="Lemma 1, lists of kappa: missing bits <= bound", low=missing, high=room,
            tolerance=allowed * (held_se * bits_at_stake(n, kappa) + bits_se),
        ),
    ]  # fmt: skip
    return row, claims


def _least_list_slack(n: int, buckets: int) -> float:
    """Lemma 1's two sides at their nearest over lists of 1 to n - 1 blocks, each as much of the bucket as fits."""
    size = np.arange(1, n)
    distinct, counts = np.unique(bucket_sizes(n, buckets), return_counts=True)
    held = np.minimum(size[:, None], distinct) @ counts / n
    room = 1 + held * np.log2(size) + (1 - held) * np.log2(n - size)
    return float(room.min()) - math.log2(n) + ledger_bits(n, buckets)


def _mean(values: npt.NDArray[Any]) -> tuple[float, float]:
    """Mean and its standard error."""
    return float(values.mean()), float(values.std(ddof=1) / math.sqrt(len(values)))


def _cell(place: str, row: dict[str, Any], claims: list[Claim]) -> Cell:
    failed = [claim.name for claim in claims if not claim.holds]
    return Cell(place, row | {"claims": len(claims), "violated": "; ".join(failed)}, tuple(claims))
