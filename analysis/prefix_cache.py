"""Which prompt tokens a prefix cache would have served, from a record alone.

For engines that report no cache hits (``cached_tokens`` of a call is null), and to compare with those that do.
The rule is vLLM's: the cache holds whole blocks of tokens; a prompt is served the blocks that it shares with an
earlier prompt from its first token on; and its last token is always computed, since its output is needed, so of n
tokens at most ``(n - 1) // block * block`` are served, which for a whole number of blocks repeats the last block.

For a cache of such blocks that evicts nothing the model counts low, never high:

- Two prompts share their common leading messages, each taken whole (prompts are additive over messages). What two
  differing messages begin with is not seen: less than one message a call, and the tokens that open a prompt, which
  the record does not tell from those that ask for the reply.
- vLLM also keeps what was generated, so a reply that stands in the next prompt as it was written is served too.
- The first call of an episode is served nothing; an engine may still hold other episodes' system prompt.

An engine short of memory evicts, and then serves less than this; so does one of larger blocks (vLLM's are of 16
tokens by default, of 128 in its CPU build).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from arcbench.records import Part
from arcbench.types import ConfigError, Json


def part(block_tokens: int) -> Part:
    """One row a call: the tokens that a cache of such blocks serves (``modelled_tokens``), those that stood in an
    earlier prompt of the episode and so were computed before (``seen_tokens``), and whether it is the agent's first
    call after a compaction that was done (``compacted``)."""
    return Part(
        f"prefix_cache_{block_tokens}",
        ("task", "number", "modelled_tokens", "seen_tokens", "compacted"),
        lambda record: _rows(record, block_tokens),
    )


def _rows(record: Mapping[str, Json], block_tokens: int) -> Iterator[dict[str, Json]]:
    sizes = [message["tokens"] for message in record["messages"]]
    done = {row["before_call"] for row in record["compactions"] if row["outcome"] == "done"}
    seen: set[int] = set()
    agent_calls = 0
    for call, served in zip(record["calls"], cached_tokens(record, block_tokens=block_tokens), strict=True):
        agents = call["billed"] == "agent"
        agent_calls += agents
        yield {
            "task": record["task"],
            "number": call["number"],
            "modelled_tokens": served,
            "seen_tokens": sum(sizes[index] for index in call["messages"] if index in seen),
            "compacted": agents and agent_calls in done,
        }
        seen.update(call["messages"])


def cached_tokens(record: Mapping[str, Json], *, block_tokens: int) -> list[int]:
    """For each model call of a record, in order, the agent's and the method's alike: the prompt tokens that a
    prefix cache of blocks of ``block_tokens`` tokens serves, given the episode's earlier prompts.

    Takes time in proportion to the messages of all calls: the prompts so far are a tree of message indices (a record
    holds each distinct message once, so equal indices are equal messages). Raises :class:`ConfigError` for a block
    of no tokens.
    """
    if isinstance(block_tokens, bool) or not isinstance(block_tokens, int) or block_tokens < 1:
        raise ConfigError(f"cache_block_tokens={block_tokens}: must be a whole number of at least 1")
    sizes = [message["tokens"] for message in record["messages"]]
    tree: dict[tuple[int, int], int] = {}
    served = []
    for call in record["calls"]:
        node, shared = 0, 0
        for index in call["messages"]:
            known = tree.get((node, index))
            if known is None:
                # a node's number is the size of the tree with it; the root, the empty prompt, is 0. What follows a
                # new node is new too, so nothing more is shared
                known = tree[node, index] = len(tree) + 1
            else:
                shared += sizes[index]
            node = known
        most = max(0, call["prompt_tokens"] - 1)
        served.append(min(shared, most) // block_tokens * block_tokens)
    return served
