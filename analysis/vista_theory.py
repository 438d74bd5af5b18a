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

The bounds and the simulation are in ``analysis.make_room``, what must hold in ``analysis.make_room_cells``.
"""

from __future__ import annotations

import argparse
import math
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path

import pandas as pd

from analysis import plot, render
from analysis.make_room import bits_at_stake, lower_bound
from analysis.make_room_cells import Cell, Settings, ledger_cells, signal_cells
from analysis.render import Sheet, number
from analysis.settings import CONF
from arcbench.types import ConfigError


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command and return its exit status."""
    parser = argparse.ArgumentParser(prog="python -m analysis.vista_theory", description="VISTA's bounds, simulated.")
    parser.add_argument("--tables", type=Path, default=Path("results/tables"), help="folder that the sheets go to")
    parser.add_argument("--settings", type=Path, default=CONF / "theory/vista.yaml", help="numbers to simulate")
    args = parser.parse_args(argv)
    try:
        settings = Settings.read(args.settings)
        return report(ledger_cells(settings), signal_cells(settings), settings, args.tables)
    except (ConfigError, OSError) as fault:
        print(" ".join(str(fault).split("\n")), file=sys.stderr)
        return 2


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

    blocks, kappas = sorted(set(ledger["blocks"])), sorted(set(ledger["kappa"]))
    colours = (*plot.COLOURS[5:7], *plot.COLOURS[1:5])
    figure = plot.pyplot().figure(figsize=(max(9.0, 3.6 * len(blocks)), 2.7 * len(kappas) + 3.6), layout="constrained")
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
    return plot.save(figure, stem)


if __name__ == "__main__":
    sys.exit(main())
