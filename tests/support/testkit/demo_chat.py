"""The chat UI to look at without a model: `PYTHONPATH=tests/support python -m testkit.demo_chat`.

Everything is real but the engine, which writes scripted answers. The history is a new one in a
temporary folder unless LOCALPAGED_HOME is set.
"""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Sequence

from localpaged.chat.publisher import Subscriber
from localpaged.chat.service import ChatService
from localpaged.engine.events import LoadEvent
from localpaged.engine.params import Request
from localpaged.errors import BadModelFile
from localpaged.paths import HOME_VARIABLE
from testkit.fake_model import read_prompt
from testkit.scripted_engine import MIB, ScriptedEngine

LOAD_STAGES = (
    LoadEvent("reading weights", 20 * MIB, 94 * MIB, "bytes"),
    LoadEvent("reading weights", 70 * MIB, 94 * MIB, "bytes"),
    LoadEvent("reading weights", 94 * MIB, 94 * MIB, "bytes"),
    LoadEvent("allocating the KV pool", 256, 256, "blocks"),
)
ANSWER = """Copy-on-write keeps **shared blocks** safe. When a block is shared by two sequences:

1. its reference count is raised, *nothing* is copied yet
2. a writer asks the pool for a free block
3. the tail is copied and `refs` falls by one

## What eviction sees

Only blocks without an owner can go:

- leaves first
- least recently used first
- never what the current allocation needs

```python
def fork(sequence: Sequence) -> Sequence:
    \"\"\"Share every full block; copy the tail when one of the two writes.\"\"\"
    for block in sequence.table[:-1]:
        pool.share(block)  # refs + 1
    return Sequence(table=list(sequence.table))
```

| state  | refs | evictable |
|--------|-----:|-----------|
| held   |   1+ | no        |
| cached |    0 | yes, least recently used first |
| free   |    0 | nothing to evict |

> A fork costs nothing until one of the two writes.

More in the [paper](https://arxiv.org/abs/2309.06180).
"""
HAIKU = "Blocks shared, then copied,\nthe tree remembers each leaf.\nEvening: cache hit.\n"


def script(request: Request) -> Sequence[str]:
    """Answer by what the question has in it; the default is a tour of Markdown."""
    question = read_prompt(request.prompt_ids)[-2][1].lower()
    if "haiku" in question:
        return _pieces(HAIKU)
    if "long" in question:
        return _pieces("\n\n".join(f"Paragraph {n}. " + "words go on " * 12 for n in range(60)))
    return _pieces(ANSWER)


def _pieces(text: str, size: int = 4) -> list[str]:
    return [text[start : start + size] for start in range(0, len(text), size)]


def main() -> int:
    """Run the UI; `--fail` shows a model that cannot be loaded, `--slow` one that takes long."""
    if HOME_VARIABLE not in os.environ:
        os.environ[HOME_VARIABLE] = tempfile.mkdtemp(prefix="localpaged-demo-")
    from localpaged.tui.terminal import run_chat
    from testkit.screens import open_service

    error = BadModelFile(
        "SmolLM2-135M-Instruct.Q4_1.gguf ends at 12.0 MiB; its header tells of 93.8 MiB.",
        hint="Remove it and fetch it again: localpaged models rm smollm2, then models pull.",
    )
    engine = ScriptedEngine(
        script, load_stages=LOAD_STAGES, load_error=error if "--fail" in sys.argv else None
    )
    with open_service(engine) as service:

        def opening(subscriber: Subscriber) -> ChatService:
            service.subscribe(subscriber)
            engine.start(tokens_per_s=40.0, load_s=8.0 if "--slow" in sys.argv else 1.0)
            return service

        return run_chat(opening, is_ascii="--ascii" in sys.argv)


if __name__ == "__main__":
    sys.exit(main())
