"""An inspect_ai agent with the same number of calls and observations of the same size, for ``scripts/bench.py``.

    python scripts/bench_inspect.py TURNS CHUNK_CHARS [trim]

Prints milliseconds a call as JSON: its react agent with a mock model, one tool that answers with so many characters,
without compaction or with its trim strategy. It may run in an environment of its own, which needs `inspect_ai` and
`tiktoken` only. Tokens are counted with a byte-level encoding made here, since the one it wants would be downloaded.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
import time

TRIM_TOKENS = 12_000


def ms_per_call(turns: int, chunk_chars: int, *, trim: bool) -> float:
    """Wall time of one sample over its model calls, in milliseconds, the second of two runs."""
    import tiktoken
    from inspect_ai import Task, eval
    from inspect_ai.agent import react
    from inspect_ai.dataset import Sample
    from inspect_ai.model import CompactionTrim, ModelOutput, get_model
    from inspect_ai.tool import tool

    ranks = {bytes([i]): i for i in range(256)}
    encoding = tiktoken.Encoding("bytes", pat_str=r"\S+|\s+", mergeable_ranks=ranks, special_tokens={})
    tiktoken.get_encoding = lambda name: encoding
    tiktoken.encoding_for_model = lambda name: encoding

    @tool
    def chunk():  # type: ignore[no-untyped-def]
        async def execute(number: int) -> str:
            """One chunk of the document.

            Args:
                number: which one, from 1 on.
            """
            return f"{number} ".ljust(chunk_chars, "x")

        return execute

    def played() -> float:
        said = [ModelOutput.for_tool_call("mockllm/model", "chunk", {"number": i}) for i in range(1, turns)]
        said.append(ModelOutput.for_tool_call("mockllm/model", "submit", {"answer": "A"}))
        agent = react(tools=[chunk()], compaction=CompactionTrim(threshold=TRIM_TOKENS) if trim else None)
        task = Task(dataset=[Sample(input="Which?", target="A")], solver=agent)
        with tempfile.TemporaryDirectory() as folder:
            started = time.perf_counter()
            (log,) = eval(task, model=get_model("mockllm/model", custom_outputs=said), display="none", log_dir=folder)
            spent = time.perf_counter() - started
        if log.status != "success":
            raise SystemExit(f"bench_inspect: {log.error}")
        return spent

    played()
    return 1000 * played() / turns


if __name__ == "__main__":
    os.environ.setdefault("INSPECT_EVAL_MODEL", "mockllm/model")
    print(json.dumps(ms_per_call(int(sys.argv[1]), int(sys.argv[2]), trim="trim" in sys.argv[3:])))
