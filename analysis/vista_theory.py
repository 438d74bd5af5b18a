"""VISTA's bounds against simulation: ``python -m analysis.vista_theory [--tables FOLDER] [--settings FILE]``.

The make-room instance (VISTA, Definition 1): n blocks, one of them, J*, kappa times as long as every other one and the
only one that is not needed again. Blocks are archived in some order until the length of J* is free. With tau the place
of J* in that order, Z = min(tau - 1, kappa) needed blocks have gone. How small E[Z] can be depends on what is known
about J* beforehand. Two kinds of knowledge are simulated, in every cell of the settings:

- ``vista_theory_ledger``: a size ledger of some rate, from nothing to log2 n bits, against Theorem 1's floor,
  Appendix D's ceiling and Lemma 1;
- ``vista_theory_signal``: content only, a noisy look at each block's size, against Proposition 2, Theorem 1 and
  Lemma 1;
- ``vista_theory.svg`` and ``.png``: both.

The exact law of Z is known in both, so the simulation is checked too. The exit status is 1 when something does not
hold, with a line for each such thing on standard error, and 2 for bad input.

The bounds are plain functions of numbers, for use in a notebook. Rates and information are in bits, Z in blocks.
"""

from __future__ import annotations

import argparse
import math
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
import yaml

from analysis import render
from analysis.render import Sheet, number
from arcbench.types import ConfigError

Floats = npt.NDArray[np.float64]
Places = npt.NDArray[np.int64]

ROUNDING = 1e-9
"""What floating point may miss an exact inequality by."""
_VALUES_AT_ONCE = 2**20  # of a simulation, to keep it within the processor's cache


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command and return its exit status."""
    parser = argparse.ArgumentParser(prog="python -m analysis.vista_theory", description="VISTA's bounds, simulated.")
    parser.add_argument("--tables", type=Path, default=Path("results/tables"), help="folder that the sheets go to")
    parser.add_argument("--settings", type=Path, default=Path("conf/theory/vista.yaml"), help="numbers to simulate")
    args = parser.parse_args(argv)
    try:
        settings = Settings.read(args.settings)
        return report(ledger_cells(settings), signal_cells(settings), settings, args.tables)
    except (ConfigError, OSError) as fault:
        print(" ".join(str(fault).split("\n")), file=sys.stderr)
        return 2


# ----------------------------------------------------------------------------------------- bounds


def lower_bound(bits: float, n: int, kappa: int) -> float:
    """Theorem 1: no policy whose knowledge of J* is ``bits`` has a smaller E[Z] (blocks).

    Raises :class:`ConfigError` outside 2 <= kappa < n/2, or for negative bits.
    """
    nu = bits_at_stake(n, kappa)
    if not bits >= 0:
        raise ConfigError(f"bits={bits}: must be a number of at least 0")
    return kappa * max(0.0, 1 - (bits + 1) / nu)


def bits_at_stake(n: int, kappa: int) -> float:
    """Theorem 1's nu = log2((n - kappa)/kappa), above 0; E[Z] falls by at most kappa/nu blocks a bit.

    Raises :class:`ConfigError` outside 2 <= kappa < n/2.
    """
    if isinstance(kappa, bool) or not isinstance(kappa, int) or not 2 <= kappa < n / 2:
        raise ConfigError(f"kappa={kappa}: must be a whole number from 2 to below n/2 = {n / 2:g} (n={n} blocks)")
    return math.log2((n - kappa) / kappa)


def upper_bound(n: int, buckets: int) -> float:
    """Appendix D: E[Z] of a ledger with balanced buckets is at most this (blocks), which is below n/(2 buckets)."""
    return (math.ceil(n / buckets) - 1) / 2


def bits_needed(delta: float, n: int, kappa: int) -> float:
    """Theorem 1 the other way round: E[Z] <= delta * kappa needs at least so many bits."""
    return max(0.0, (1 - delta) * bits_at_stake(n, kappa) - 1)


def bits_enough(delta: float, n: int, kappa: int) -> float:
    """Appendix D the other way round: a ledger of so many bits has E[Z] <= delta * kappa."""
    return math.log2(min(n, math.ceil(n / (2 * delta * kappa)))) if delta > 0 else math.log2(n)


def unavailable_bound(mean_lost: float, restorable: int) -> float:
    """Needed blocks that stay gone, at least, on the mean, when ``restorable`` of the archived can be brought back."""
    return max(0.0, mean_lost - restorable)


def signal_information_bound(n: int, kappa: int, sigma: float) -> float:
    """Proposition 2: bits that W_j = ln s_j + N(0, sigma^2) of all n blocks say about J*, at most."""
    return min(math.log2(n), math.log2(kappa) ** 2 * math.log(2) / sigma**2)


def list_bound(held: float, size: int, n: int) -> float:
    """Lemma 1: bits about J* that may be missing, at most, when a list of ``size`` blocks holds it with
    probability ``held``."""
    return 1 + held * math.log2(size) + (1 - held) * math.log2(n - size)


def recovery_bound(budget_bits: float, blocks: int, bits_each: int) -> float:
    """Proposition 1: without recovery, P(correct) is at most this.

    ``blocks`` independent blocks of ``bits_each`` uniform bits, the prompt state at most ``budget_bits``, the question
    asked afterwards. It is 1, and says nothing, where the budget holds everything. Raises :class:`ConfigError`.
    """
    for key, value, least in (("budget_bits", budget_bits, 0), ("blocks", blocks, 1), ("bits_each", bits_each, 1)):
        if not value >= least:
            raise ConfigError(f"{key}={value}: must be a number of at least {least}")
    return min(1.0, budget_bits / (blocks * bits_each) + 1 / bits_each)


# ------------------------------------------------------------------------------- the two interfaces


def bucket_count(bits: float, n: int) -> int:
    """Buckets of a ledger of nominally so many bits: M = min(n, floor(2^bits))."""
    # log2 of a whole number, taken back, must give that number
    return n if bits >= math.log2(n) else min(n, math.floor(2**bits * (1 + ROUNDING)))


def bucket_sizes(n: int, buckets: int) -> Places:
    """Blocks in each of the balanced buckets: block j is in bucket j mod ``buckets``."""
    return n // buckets + (np.arange(buckets) < n % buckets).astype(np.int64)


def ledger_bits(n: int, buckets: int) -> float:
    """What the bucket says about J*, H(Y) in bits: log2 of their number, and less where n is no multiple of it."""
    share = bucket_sizes(n, buckets) / n
    return float(-(share * np.log2(share)).sum()) + 0.0  # one bucket says 0, not -0


def ledger_law(n: int, buckets: int, kappa: int) -> Floats:
    """P(Z = 0), ..., P(Z = kappa) when the bucket of J* is known and probed in uniformly random order."""
    sizes = bucket_sizes(n, buckets)
    # tau - 1 is z with probability 1/size in a bucket larger than z, and J* is there with probability size/n
    below = [(sizes > z).sum() / n for z in range(kappa)]
    return np.array([*below, np.maximum(sizes - kappa, 0).sum() / n])


def exact_ledger_mean(n: int, buckets: int, kappa: int) -> float:
    """E[Z] of that ledger, exactly (blocks)."""
    return _moments(ledger_law(n, buckets, kappa))[0]


def simulate_ledger(n: int, buckets: int, trials: int, rng: np.random.Generator) -> Places:
    """The place tau of J* in each trial: its bucket is known, and the bucket's blocks are probed in random order."""
    bulky = rng.integers(n, size=trials)
    depth = math.ceil(n / buckets)
    places = []
    for part in _parts(bulky, depth):
        keys = rng.random((len(part), depth))  # the order of probing is that of the keys
        blocks = (part % buckets)[:, None] + buckets * np.arange(depth)
        keys[blocks >= n] = np.inf  # the smaller buckets have one block less
        own = np.take_along_axis(keys, (part // buckets)[:, None], axis=1)
        places.append((keys < own).sum(axis=1) + 1)
    return np.concatenate(places)


def signal_law(n: int, kappa: int, sigma: float) -> Floats:
    """P(Z = 0), ..., P(Z = kappa) when blocks are probed in decreasing W."""
    # given the noise x of J*, each other block comes before it with the same probability p, independently
    x = np.linspace(-10, 10, 4001)  # the normal density has ended; the trapezoid rule is exact for such integrands
    weight = np.exp(-(x**2) / 2) / math.sqrt(2 * math.pi) * (x[1] - x[0])
    p = np.array([math.erfc((value + math.log(kappa) / sigma) / math.sqrt(2)) / 2 for value in x])
    p = p.clip(np.finfo(float).tiny, 1 - np.finfo(float).eps)[:, None]
    z = np.arange(kappa)
    ways = np.concatenate([[0.0], np.cumsum(np.log((n - 1 - z[:-1]) / (z[:-1] + 1)))])  # ln of (n - 1 choose z)
    below = weight @ np.exp(ways + z * np.log(p) + (n - 1 - z) * np.log1p(-p))
    return np.append(below, max(0.0, 1 - below.sum()))


def exact_signal_mean(n: int, kappa: int, sigma: float) -> float:
    """E[Z] of probing in decreasing W, by numerical integration (blocks)."""
    return _moments(signal_law(n, kappa, sigma))[0]


def simulate_signal(n: int, kappa: int, sigma: float, trials: int, rng: np.random.Generator) -> tuple[Places, Floats]:
    """The place tau of J* in decreasing W in each trial, and the bits about J* that W leaves open (posterior entropy).

    Probing in decreasing W is the best that can be done: the posterior of J* rises with W.
    """
    bulky = rng.integers(n, size=trials)
    places, entropies = [], []
    for part in _parts(bulky, n):
        w = rng.normal(scale=sigma, size=(len(part), n))  # ln of the common length is a constant: left out
        w[np.arange(len(part)), part] += math.log(kappa)
        own = np.take_along_axis(w, part[:, None], axis=1)
        places.append((w > own).sum(axis=1) + 1)
        # the posterior of J* = j is in proportion to exp(ln kappa * W_j / sigma^2)
        score = math.log(kappa) / sigma**2 * (w - w.max(axis=1, keepdims=True))
        odds = np.exp(score)
        total = odds.sum(axis=1)
        entropies.append((np.log(total) - (odds * score).sum(axis=1) / total) / math.log(2))
    return np.concatenate(places), np.concatenate(entropies)


def blocks_lost(places: Places, kappa: int) -> Places:
    """Z = min(tau - 1, kappa), the needed blocks archived (Eq. 9)."""
    return np.minimum(places - 1, kappa)


def _parts(values: Places, width: int) -> Iterator[Places]:
    step = max(1, _VALUES_AT_ONCE // width)
    for start in range(0, len(values), step):
        yield values[start : start + step]


def _moments(law: Floats) -> tuple[float, float]:
    """Mean and standard deviation of a law on 0, 1, ..."""
    values = np.arange(len(law))
    mean = float(law @ values)
    return mean, math.sqrt(max(0.0, float(law @ (values - mean) ** 2)))


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
            _whole("blocks", n, 1)
            for kappa in self.kappas:
                bits_at_stake(n, kappa)
        for key, value in (("bits_step", self.bits_step), *(("sigmas", sigma) for sigma in self.sigmas)):
            if not _is_number(value) or not 0 < value < math.inf:
                raise ConfigError(f"{key}={value}: must be a number above 0")
        if not _is_number(self.standard_errors) or not 0 <= self.standard_errors < math.inf:
            raise ConfigError(f"standard_errors={self.standard_errors}: must be a number of at least 0")
        _whole("restorable", self.restorable, 0)
        _whole("trials", self.trials, 2)
        _whole("seed", self.seed, 0)

    @classmethod
    def read(cls, path: Path) -> Settings:
        """From a YAML file. Raises :class:`ConfigError`, ``OSError``."""
        try:
            given = yaml.safe_load(path.read_text("utf-8"))
        except (yaml.YAMLError, UnicodeDecodeError) as fault:
            raise ConfigError(f"{path}: must be a YAML file: {' '.join(str(fault).split())}") from None
        keys = [field.name for field in fields(cls)]
        if not isinstance(given, Mapping) or set(given) != set(keys):
            found = ", ".join(map(str, given)) if isinstance(given, Mapping) else given
            raise ConfigError(f"{path}: has {found}; must have exactly these keys: {', '.join(keys)}")
        values: dict[str, Any] = {k: tuple(v) if isinstance(v, list) else v for k, v in given.items()}
        return cls(**values)

    def rng(self, *cell: int) -> np.random.Generator:
        """Randomness of one cell: the same whatever other cells there are."""
        return np.random.default_rng([self.seed, *cell])


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _whole(key: str, value: object, least: int) -> None:
    if isinstance(value, bool) or not isinstance(value, int) or value < least:
        raise ConfigError(f"{key}={value}: must be a whole number of at least {least}")


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
    exact, spread = _moments(law)
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


# ----------------------------------------------------------------------------------------- output


def report(ledger: Sequence[Cell], signal: Sequence[Cell], settings: Settings, tables: Path) -> int:
    """Write and print the sheets, draw the figure, name what does not hold; returns the exit status.

    Raises ``OSError``.
    """
    sheets = (ledger_sheet(ledger, settings), signal_sheet(signal, settings))
    for sheet in sheets:
        print(render.markdown(sheet))
        for path in render.write(sheet, tables):
            print(f"wrote {path}")
    for path in draw(sheets[0].data, sheets[1].data, tables / "vista_theory"):
        print(f"wrote {path}")
    cells = (*ledger, *signal)
    violations = [(cell, claim) for cell in cells for claim in cell.violations()]
    count = sum(len(cell.claims) for cell in cells)
    print(
        f"checked {len(ledger)} ledger and {len(signal)} signal cells, {count} inequalities, "
        f"within {settings.standard_errors:g} standard errors: {len(violations)} violated"
    )
    for cell, claim in violations:
        print(
            f"violated in {cell.place}: {claim.name} "
            f"({claim.low:.6g} is above {claim.high:.6g} by more than {claim.tolerance:.3g})",
            file=sys.stderr,
        )
    return 1 if violations else 0


def ledger_sheet(cells: Iterable[Cell], settings: Settings) -> Sheet:
    """Size ledgers: the CSV has every rate, the table the whole bits and the full ledger."""
    data = pd.DataFrame([cell.row for cell in cells])
    shown = data[(data["bits"] % 1 == 0) | (data["buckets"] == data["blocks"])]
    body = shown[["blocks", "kappa"]].rename(columns={"blocks": "n"})
    body["nominal bits"] = shown["bits"].map(lambda v: number(v, 2))
    body["buckets"] = shown["buckets"]
    body["true bits"] = shown["bits_true"].map(lambda v: number(v, 3))
    body["floor"] = shown["z_lower"].map(lambda v: number(v, 3))
    body["mean Z"] = shown["z_mean"].map(lambda v: number(v, 3))
    body["its SE"] = shown["z_se"].map(lambda v: number(v, 3))
    body["exact E[Z]"] = shown["z_exact"].map(lambda v: number(v, 3))
    body["ceiling"] = shown["z_upper"].map(lambda v: number(v, 1))
    body["stay gone"] = shown["unavailable_mean"].map(lambda v: number(v, 3))
    body["at least"] = shown["unavailable_floor"].map(lambda v: number(v, 3))
    body["list slack"] = shown["list_least_slack_bits"].map(lambda v: number(v, 3))
    body["holds"] = _verdicts(shown)
    return Sheet(
        name="vista_theory_ledger",
        title="Needed blocks lost, by the rate of a size ledger",
        lead=(
            f"Means of {settings.trials:,} trials a row, seed {settings.seed}; "
            f"all bounds are checked within {settings.standard_errors:g} standard errors.",
        ),
        data=data,
        body=body,
        text_columns=frozenset({"holds"}),
        notes=(
            "floor: Theorem 1 at the true bits, the entropy of the bucket. ceiling: (ceil(n/M) - 1)/2 of Appendix D, "
            "M the buckets; Z is at most kappa anyway.",
            f"stay gone: when {settings.restorable} of the archived blocks can be restored; "
            "at least: exact E[Z] less that number.",
            "list slack: Lemma 1's right side less its left side in bits, at the list size where they are nearest.",
            "The CSV has every rate.",
        ),
    )


def signal_sheet(cells: Iterable[Cell], settings: Settings) -> Sheet:
    """Content-only signals."""
    data = pd.DataFrame([cell.row for cell in cells])
    body = data[["blocks", "kappa"]].rename(columns={"blocks": "n"})
    body["sigma"] = data["sigma"].map(lambda v: f"{v:g}")
    body["bits"] = data["information_bits"].map(lambda v: number(v, 3))
    body["SE of bits"] = data["information_se"].map(lambda v: number(v, 3))
    body["at most"] = data["information_bound_bits"].map(lambda v: number(v, 3))
    body["floor"] = data["z_lower"].map(lambda v: number(v, 3))
    body["floor at bits"] = data["z_lower_measured"].map(lambda v: number(v, 3))
    body["mean Z"] = data["z_mean"].map(lambda v: number(v, 3))
    body["its SE"] = data["z_se"].map(lambda v: number(v, 3))
    body["exact E[Z]"] = data["z_exact"].map(lambda v: number(v, 3))
    body["stay gone"] = data["unavailable_mean"].map(lambda v: number(v, 3))
    body["at least"] = data["unavailable_floor"].map(lambda v: number(v, 3))
    body["holds"] = _verdicts(data)
    return Sheet(
        name="vista_theory_signal",
        title="Needed blocks lost when sizes are seen through noise only",
        lead=(
            "Blocks are probed in decreasing W = ln(size) + noise of SD sigma, which is the best policy. "
            f"Means of {settings.trials:,} trials a row, seed {settings.seed}; "
            f"all bounds are checked within {settings.standard_errors:g} standard errors.",
        ),
        data=data,
        body=body,
        text_columns=frozenset({"holds"}),
        notes=(
            "bits: what W says about the bulky block, log2 n less the mean posterior entropy; at most: Proposition 2. "
            "floor: Theorem 1 at Proposition 2's bits, and at the measured ones.",
            f"stay gone: when {settings.restorable} of the archived blocks can be restored; "
            "at least: exact E[Z] less that number.",
        ),
    )


def _verdicts(data: pd.DataFrame) -> pd.Series[str]:
    return data["violated"].map(lambda names: f"no: {names}" if names else "yes")


def draw(ledger: pd.DataFrame, signal: pd.DataFrame, stem: Path) -> list[Path]:
    """Above, Z against the ledger's bits for each n and kappa; below, content-only signals against sigma."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot as plt

    blocks, kappas = sorted(set(ledger["blocks"])), sorted(set(ledger["kappa"]))
    colours = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9")
    figure = plt.figure(figsize=(max(9.0, 3.6 * len(blocks)), 2.7 * len(kappas) + 3.6), layout="constrained")
    above, below = figure.subfigures(2, 1, squeeze=False, height_ratios=[2.7 * len(kappas) + 0.5, 3.1])[:, 0]

    panels = above.subplots(len(kappas), len(blocks), squeeze=False)
    for kappa, line in zip(kappas, panels, strict=True):
        for n, axis in zip(blocks, line, strict=True):
            cells = ledger[(ledger["blocks"] == n) & (ledger["kappa"] == kappa)]
            nu = bits_at_stake(n, kappa)
            floor = [0.0, max(0.0, nu - 1), math.log2(n)]  # a straight line down to 0, then 0
            axis.plot(
                cells["bits_true"], cells["z_upper"].clip(upper=kappa), "--", color=colours[1],
                label="Appendix D's ceiling (never above κ)",
            )  # fmt: skip
            axis.errorbar(
                cells["bits_true"], cells["z_mean"], yerr=cells["z_se"], fmt="o", ms=3.5, color="black",
                label="simulated ledger, mean Z ± SE", zorder=3,
            )  # fmt: skip
            axis.plot(
                floor, [lower_bound(b, n, kappa) for b in floor], "-", color=colours[0], label="Theorem 1's floor"
            )
            axis.set_title(f"n = {n}, κ = {kappa}: floor falls κ/ν = {kappa / nu:.2f} a bit", fontsize=9)
            axis.set_ylim(-0.03 * kappa, 1.08 * kappa)
            axis.set_xlabel("bits about J*")
            axis.set_ylabel("needed blocks lost, Z")
    handles, names = panels[0][0].get_legend_handles_labels()
    above.legend(handles, names, loc="outside upper center", ncols=3, fontsize=9)

    loss, bits = below.subplots(1, 2)
    for place, kappa in enumerate(kappas):
        colour = colours[place % len(colours)]
        cells = signal[signal["kappa"] == kappa].sort_values("sigma")
        last = cells[cells["blocks"] == blocks[-1]]
        loss.plot(last["sigma"], last["z_mean"] / kappa, "o-", ms=3.5, color=colour, label=f"κ = {kappa}: simulated")
        loss.plot(last["sigma"], last["z_lower_measured"] / kappa, ":", color=colour, label="floor, measured bits")
        loss.plot(last["sigma"], last["z_lower"] / kappa, "--", color=colour, label="floor, Proposition 2")
        bits.plot(
            last["sigma"],
            last["information_bound_bits"],
            "--",
            color=colour,
            label=f"κ = {kappa}: Proposition 2,\nn = {blocks[-1]}",
        )
        for marker, n in zip("osv^D*XP" * len(blocks), blocks, strict=False):
            own = cells[cells["blocks"] == n]
            label = f"measured, n = {n}"
            bits.plot(own["sigma"], own["information_bits"], marker, ms=4, mfc="none", color=colour, label=label)
    loss.set_title(f"content-only signals, n = {blocks[-1]}", fontsize=9)
    loss.set_ylabel("share of κ lost, Z/κ")
    bits.set_title("what they say about J*", fontsize=9)
    bits.set_ylabel("bits")
    bits.set_yscale("log")
    for axis in (loss, bits):
        axis.set_xscale("log")
        axis.set_xticks(sorted(set(signal["sigma"])), [f"{s:g}" for s in sorted(set(signal["sigma"]))])
        axis.minorticks_off()
        axis.set_xlabel("σ, noise of ln(size)")
        axis.legend(fontsize=7, loc="center left", bbox_to_anchor=(1, 0.5))
    paths = [stem.with_suffix(f".{suffix}") for suffix in ("svg", "png")]
    with matplotlib.rc_context({"svg.hashsalt": stem.name}):  # the same bytes each time
        for path in paths:
            figure.savefig(path, dpi=150, metadata={"Date": None} if path.suffix == ".svg" else None)
    plt.close(figure)
    return paths


if __name__ == "__main__":
    sys.exit(main())
