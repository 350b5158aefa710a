"""An answer behind KV from files equals the one behind KV that was computed, bit by bit."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import pytest
import torch

from localpaged.engine.keeping_core import KeepingCore
from localpaged.kv_files.folder import KVFolder
from localpaged.kv_files.identity import KVIdentity
from testkit.decoders import (
    load_decoder,
    load_eight_bit,
    make_decoder_core,
    needs_eight_bit,
)
from testkit.engine_runs import Outcome, collect, make_request, run
from testkit.kv_keeping import ManualKeeper, NeverTimer
from testkit.tiny_model import save_tiny_model

PROMPT = [(7 * i * i + 3 * i) % 90 + 3 for i in range(150)]
MORE = [5, 9, 33, 60, 12]


class Life:
    """One process's core over the decoder, and the keeper of its files."""

    def __init__(self, decoder, root: Path, kv_dtype: torch.dtype) -> None:
        self.core = make_decoder_core(
            decoder, kv_dtype=kv_dtype, make_core=partial(self._make, root)
        )

    def _make(self, root: Path, *args, store, **options) -> KeepingCore:
        identity = KVIdentity((("weights", "tiny"),), 16, store.forms, max_segment_blocks=4)
        self.keeper = ManualKeeper(KVFolder(identity, root))
        return KeepingCore(*args, store=store, keeper=self.keeper, make_timer=NeverTimer, **options)

    def ask(self, prompt) -> Outcome:
        outcomes: dict[str, Outcome] = {}
        asked = make_request("chat", prompt, max_tokens=24, logprobs=3)
        collect(outcomes, self.core.submit(asked))
        for _ in range(500):
            if self.core.is_idle:
                break
            self.keeper.work()
            collect(outcomes, self.core.step())
            self.core.check()
        return outcomes["chat"]


@pytest.mark.parametrize(
    ("family", "kv_dtype", "load"),
    [
        ("llama", torch.float32, load_decoder),
        ("llama", torch.bfloat16, load_decoder),
        ("llama", torch.int8, load_decoder),
        ("qwen3", torch.float32, load_decoder),
        ("mistral", torch.float32, load_decoder),
        ("gemma3", torch.float32, load_decoder),
        pytest.param("llama", torch.bfloat16, load_eight_bit, marks=needs_eight_bit),
    ],
)
def test_an_answer_after_a_restart_is_the_same(tmp_path, family, kv_dtype, load):
    overrides = {"sliding_window": 40} if family == "mistral" else {}
    decoder, _ = load(save_tiny_model(tmp_path / "model", family, **overrides))
    first = Life(decoder, tmp_path / "kv", kv_dtype)
    begun = first.ask(PROMPT)
    first.core.park(wait_s=1)
    told = [*PROMPT, *begun.token_ids, *MORE]

    undisturbed = first.ask(told)
    resumed = Life(decoder, tmp_path / "kv", kv_dtype).ask(told)

    assert resumed.prefill[0].restored_tokens == undisturbed.prefill[0].cached_tokens == 160
    assert resumed.token_ids == undisturbed.token_ids
    assert resumed.logprobs == undisturbed.logprobs


def test_it_also_equals_what_is_computed_at_once(tmp_path):
    decoder, _ = load_decoder(save_tiny_model(tmp_path / "model", "llama"))
    first = Life(decoder, tmp_path / "kv", torch.float32)
    first.ask(PROMPT)
    first.core.park(wait_s=1)
    told = [*PROMPT, *MORE]
    asked = make_request("chat", told, max_tokens=24)
    computed = run(make_decoder_core(decoder), [asked])["chat"]

    resumed = Life(decoder, tmp_path / "kv", torch.float32).ask(told)

    assert resumed.prefill[0].restored_tokens > 100
    assert resumed.token_ids == computed.token_ids
