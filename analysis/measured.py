"""Predicted and measured time: ``python -m analysis.measured [--runs DIR] [--tables DIR] [--hardware FILE]``.

For each run on a device whose facts are known (``conf/hardware``, by its name in the manifest; any other with a
file that ``scripts/calibrate_engine.py`` wrote): the roofline's seconds of decoding and prefill for all its episodes,
and the seconds that its sessions played. Two predictions: with as many sequences together as have room, which is the
paper's, and with no more than the engine was let run. Prompt tokens that the prefix cache served are not prefilled
where the engine reported them.

Measured time also has what the roofline leaves out: the tail of a run, when few episodes are left; kernels that reach
neither bandwidth nor peak; scheduling, sampling and structured outputs; the harness and its tools.

Writes ``measured_<harness>``. Exit status 2, with one line on standard error, for bad input.
"""

from __future__ import annotations

import argparse
import math
import sys
from collections.abc import Mapping, Sequence
from dataclasses import fields
from pathlib import Path
from typing import Any

import pandas as pd

from analysis import frames, render, settings
from analysis.render import DASH, Sheet, number
from analysis.roofline import CACHED, UNCACHED, Roofline, Switches
from analysis.roofline_facts import BYTES, HARDWARE, Hardware, ModelFacts
from analysis.rows import records_of
from arcbench.records import RunError, read_manifest
from arcbench.types import ConfigError

_WORDS = ("method", "variant", "budget", "model", "device", "prefill")


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command and return its exit status."""
    parser = argparse.ArgumentParser(prog="python -m analysis.measured", description="Predicted and measured time.")
    parser.add_argument("--runs", type=Path, default=Path("results/runs"), help="folder below which all runs are read")
    parser.add_argument("--tables", type=Path, default=Path("results/tables"), help="folder that the tables go to")
    parser.add_argument("--hardware", type=Path, help="file of a device that conf/hardware does not have")
    args = parser.parse_args(argv)
    try:
        devices = [Hardware.read(path.stem) for path in sorted(HARDWARE.glob("*.yaml"))]
        if args.hardware:
            devices.append(Hardware(**settings.read(args.hardware, [field.name for field in fields(Hardware)])))
        read = frames.load(args.runs)
        data = table(read.runs, read.episodes, read.calls, devices)
        if data.empty:
            known = ", ".join(device.device for device in devices)
            raise ConfigError(
                f"{args.runs}: no run with recorded time on a device that is known ({known}); "
                "scripts/calibrate_engine.py measures another, for --hardware"
            )
        for harness, some in data.groupby("benchmark"):
            made = sheet(str(harness), some)
            print(render.markdown(made))
            for path in render.write(made, args.tables):
                print(f"wrote {path}")
    except (ConfigError, RunError, OSError) as fault:
        print(" ".join(str(fault).split("\n")), file=sys.stderr)
        return 2
    return 0


def table(runs: pd.DataFrame, episodes: pd.DataFrame, calls: pd.DataFrame, devices: Sequence[Hardware]) -> pd.DataFrame:
    """One row a run whose device and model are known and whose every session says how long it played."""
    rows = []
    for run in records_of(runs):
        device = _device(run, devices)
        its = calls[calls["run_dir"] == run["run_dir"]]
        measured = _played_s(run)
        dtype = run["config"].get("model.dtype")
        if device is None or measured is None or its.empty or dtype not in BYTES:
            continue
        try:
            facts = ModelFacts.read(str(run["model"]))
        except ConfigError:
            continue
        prefill = UNCACHED if its["cached_tokens"].isna().any() else CACHED
        switches = Switches.read(
            weight_bytes_per_parameter=BYTES[dtype], kv_bytes_per_element=BYTES[dtype], prefill=prefill,
            n_gpu=run["config"].get("engine.tensor_parallel_size") or 1,
        )  # fmt: skip
        roofline = Roofline(model=facts, hardware=device, switches=switches)
        row = {"benchmark": run["harness"], "device": device.id, "prefill": prefill, "measured_s": measured}
        row |= {key: run[key] for key in ("run_dir", "method", "variant", "budget", "model", "seed")}
        row["n_episodes"] = int((episodes["run_dir"] == run["run_dir"]).sum())
        most = run["config"].get("engine.concurrency")
        for name, most_sequences in (("room", None), ("run", most)):
            total = roofline.episodes(its, most_sequences=most_sequences)[
                ["prefilled_tokens", "decode_tokens", "decode_s", "prefill_s", "total_s"]
            ].sum()
            row |= {key: int(total[key]) for key in ("prefilled_tokens", "decode_tokens")}
            row |= {"prefill_s": total["prefill_s"], f"decode_{name}_s": total["decode_s"]}
            row |= {f"predicted_{name}_s": total["total_s"], f"times_{name}": measured / total["total_s"]}
        rows.append(row | {"most_sequences": most})
    return pd.DataFrame(rows)


def _device(run: Mapping[str, Any], devices: Sequence[Hardware]) -> Hardware | None:
    """The one device of all sessions of a run, where it is known."""
    sessions = read_manifest(Path(run["run_dir"])).get("sessions") or ()
    names = {str((session.get("engine") or {}).get("device")) for session in sessions}
    if len(names) != 1:
        return None
    (name,) = names
    return next((device for device in reversed(devices) if device.device in name), None)


def _played_s(run: Mapping[str, Any]) -> float | None:
    """Seconds of all sessions of a run that finished its plan; ``None`` where one was killed."""
    sessions = read_manifest(Path(run["run_dir"])).get("sessions") or ()
    spent = [session.get("played_s") for session in sessions]
    return None if None in spent or not spent else math.fsum(spent)


def sheet(harness: str, data: pd.DataFrame) -> Sheet:
    """The table of one harness."""
    body = []
    for row in records_of(data):
        body.append(
            {name: row[name] or DASH for name in _WORDS}
            | {"seed": str(row["seed"]), "episodes": str(row["n_episodes"])}
            | {"prefilled tokens": str(row["prefilled_tokens"]), "decoded": str(row["decode_tokens"])}
            | {"prefill s": number(row["prefill_s"]), "decode s, with room": number(row["decode_room_s"])}
            | {"decode s, as run": number(row["decode_run_s"]), "measured s": number(row["measured_s"])}
            | {"times as long, with room": number(row["times_room"]), "as run": number(row["times_run"])}
        )
    return Sheet(
        name=f"measured_{harness}",
        title=f"Predicted and measured time, {harness}",
        lead=(
            "Predicted by the roofline for all episodes of a run: with as many sequences together as have room, and "
            "with no more than the engine was let run; measured: what its sessions played.",
        ),
        data=data,
        body=pd.DataFrame(body),
        text_columns=frozenset(_WORDS),
        notes=(
            "The roofline leaves out: the tail of a run, kernels below bandwidth and peak, scheduling, sampling, "
            "structured outputs, the harness and its tools.",
        ),
    )


if __name__ == "__main__":
    sys.exit(main())
