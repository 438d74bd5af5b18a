"""Get the prompt files of LongBench-v2's own protocol, which its preset ``official`` uses.

    python scripts/fetch_longbench_prompts.py [--out data/longbench_v2_prompts] [--from FOLDER]

The commit, the address and the SHA-256 that each file must have are in ``conf/harness/longbench_v2_hard.yaml``; a
file with another one is not kept. ``--from`` takes them from a folder (a checkout's ``prompts/``) instead.
"""

from __future__ import annotations

import argparse
import hashlib
import sys
import urllib.error
import urllib.request
from pathlib import Path
from string import Template

import yaml

CONFIG = Path(__file__).resolve().parent.parent / "conf/harness/longbench_v2_hard.yaml"
TIMEOUT_S = 60


def main() -> int:
    """Fetch, check and write each file; 0 when all are there, 2 with one line when one is not."""
    official = yaml.safe_load(CONFIG.read_text("utf-8"))["official"]
    parser = argparse.ArgumentParser(description="Get the prompt files of LongBench-v2's own protocol.")
    parser.add_argument("--out", type=Path, default=Path(official["folder"]), help="folder to write them to")
    parser.add_argument("--from", dest="source", type=Path, help="folder to take them from, instead of the network")
    args = parser.parse_args()
    for name, sha256 in official["files"].items():
        address = Template(official["address"]).substitute(commit=official["commit"], file=name)
        place = args.source / name if args.source else address
        try:
            content = read(place)
            found = hashlib.sha256(content).hexdigest()
            if found != sha256:
                return fail(f"{place}: has SHA-256 {found}, not {sha256}; it was not kept")
            args.out.mkdir(parents=True, exist_ok=True)
            (args.out / name).write_bytes(content)
        except (OSError, urllib.error.URLError) as fault:
            way = "" if args.source else "; elsewhere, get the benchmark's repository and give its prompts/ as --from"
            return fail(f"{place}: {getattr(fault, 'reason', None) or fault}{way}")
        print(f"{args.out / name}: sha256 {found}")
    return 0


def read(place: Path | str) -> bytes:
    """The content of a file or of an address."""
    if isinstance(place, Path):
        return place.read_bytes()
    with urllib.request.urlopen(place, timeout=TIMEOUT_S) as answer:
        content: bytes = answer.read()
    return content


def fail(line: str) -> int:
    """One line on standard error, and the exit status."""
    print(f"fetch_longbench_prompts: {line}", file=sys.stderr)
    return 2


if __name__ == "__main__":
    sys.exit(main())
