"""Get LongBench-v2: its rows from the hub, and the prompt files of its own protocol (the preset ``official``).

    python scripts/fetch_longbench.py rows [--out data/longbench_v2.jsonl]
    python scripts/fetch_longbench.py prompts [--out data/longbench_v2_prompts] [--from FOLDER]

What is fetched, at which revision and with which SHA-256, stands in ``conf/harness/longbench_v2_hard.yaml``. Nothing is
kept that does not pass the harness's own checks. ``--from`` takes the prompt files from a folder (a checkout's
``prompts/``) instead of the network.
"""

from __future__ import annotations

import argparse
import hashlib
import importlib
import os
import sys
import urllib.error
import urllib.request
from collections.abc import Mapping
from pathlib import Path
from string import Template
from typing import Any

import yaml

from arcbench.types import ConfigError
from harness.longbench_rows import from_file

ROOT = Path(__file__).resolve().parent.parent
CONFIG = ROOT / "conf/harness/longbench_v2_hard.yaml"
TIMEOUT_S = 60


def main() -> int:
    """Fetch, check and write; 0 when all is there, 2 with one line when something is not."""
    config = yaml.safe_load(CONFIG.read_text("utf-8"))
    parser = argparse.ArgumentParser(description="Get LongBench-v2's rows, or the prompt files of its own protocol.")
    what = parser.add_subparsers(dest="what", required=True)
    of_rows = what.add_parser("rows", help="the dataset's rows, from the hub")
    of_rows.add_argument("--out", type=Path, default=ROOT / "data/longbench_v2.jsonl", help="file to write")
    of_prompts = what.add_parser("prompts", help="the prompt files of the benchmark's own protocol")
    of_prompts.add_argument("--out", type=Path, default=Path(config["official"]["folder"]), help="folder to write to")
    of_prompts.add_argument("--from", dest="source", type=Path, help="folder to take them from, instead of the network")
    args = parser.parse_args()
    try:
        if args.what == "rows":
            fetch_rows(config, args.out)
        else:
            fetch_prompts(config["official"], args.out, args.source)
    except ConfigError as fault:
        print(f"fetch_longbench: {fault}", file=sys.stderr)
        return 2
    return 0


def fetch_rows(config: Mapping[str, Any], out: Path) -> None:
    """Write all rows, easy ones too, as JSON lines. Raises :class:`ConfigError`."""
    named = f"{config['hub_id']} at {config['revision']}"
    draft = out.with_name(f".{os.getpid()}.{out.name}")
    try:
        datasets = importlib.import_module("datasets")
        rows = datasets.load_dataset(config["hub_id"], split=config["split"], revision=config["revision"])
        out.parent.mkdir(parents=True, exist_ok=True)
        rows.to_json(draft, force_ascii=False)
        found = len(from_file(str(draft)).hard)
        if found != config["hard_rows"]:
            raise ConfigError(f"{named}: has {found} hard rows, not {config['hard_rows']}; nothing was kept")
        draft.replace(out)
    except ImportError:
        raise ConfigError("the package datasets is not installed: pip install -e '.[longbench]'") from None
    except ConfigError:
        raise
    except Exception as fault:  # whatever the network, the hub and its client raise
        reason = " ".join(f"{type(fault).__name__}: {fault}".split())[:300]
        raise ConfigError(f"{named}: cannot be loaded ({reason})") from None
    finally:
        draft.unlink(missing_ok=True)
    print(f"{out}: {len(rows)} rows, {found} of them hard")


def fetch_prompts(official: Mapping[str, Any], out: Path, source: Path | None) -> None:
    """Write each prompt file that has the SHA-256 it must have. Raises :class:`ConfigError`."""
    for name, sha256 in official["files"].items():
        address = Template(official["address"]).substitute(commit=official["commit"], file=name)
        place = source / name if source else address
        try:
            content = read(place)
            found = hashlib.sha256(content).hexdigest()
            if found != sha256:
                raise ConfigError(f"{place}: has SHA-256 {found}, not {sha256}; it was not kept")
            out.mkdir(parents=True, exist_ok=True)
            (out / name).write_bytes(content)
        except (OSError, urllib.error.URLError) as fault:
            way = "" if source else "; elsewhere, get the benchmark's repository and give its prompts/ as --from"
            raise ConfigError(f"{place}: {getattr(fault, 'reason', None) or fault}{way}") from None
        print(f"{out / name}: sha256 {found}")


def read(place: Path | str) -> bytes:
    """The content of a file or of an address."""
    if isinstance(place, Path):
        return place.read_bytes()
    with urllib.request.urlopen(place, timeout=TIMEOUT_S) as answer:
        content: bytes = answer.read()
    return content


if __name__ == "__main__":
    sys.exit(main())
