"""transformers with random weights of the same shapes: what we are compared with."""

from __future__ import annotations

import random
import time
from collections.abc import Sequence
from typing import Any

import torch

from gpu_check_parts.bench import Bench
from gpu_check_parts.shapes import transformers_fields
from localpaged.decoder_config import DecoderConfig


class Theirs:
    """A transformers model on the bench's device: `generate`, and its continuous batching."""

    def __init__(self, bench: Bench, config: DecoderConfig) -> None:
        import transformers

        transformers.logging.set_verbosity_error()
        transformers.logging.disable_progress_bar()
        torch.manual_seed(0)
        # Made where it is used: drawing billions of numbers on a CPU takes minutes.
        with torch.device(bench.device):
            self.model: Any = transformers.AutoModelForCausalLM.from_config(
                transformers.Qwen3Config(**transformers_fields(config)),
                dtype=torch.bfloat16,
            ).eval()
        self.model.generation_config.eos_token_id = None
        self.model.generation_config.pad_token_id = 0
        self._bench = bench
        self._vocab_size = config.vocab_size
        self._random = random.Random(1)

    def prompt(self, num_tokens: int) -> list[int]:
        """Return a random prompt."""
        return [self._random.randrange(3, self._vocab_size) for _ in range(num_tokens)]

    def decode_per_s(self, rows: int, *, prompt_tokens: int, steps: int) -> float:
        """Return tokens a second of `generate` after the first token of each row."""
        lengths = [prompt_tokens] * rows
        self.generate_s(lengths, 2)
        first_s = self.generate_s(lengths, 1)
        whole_s = self.generate_s(lengths, 1 + steps)
        return rows * steps / max(whole_s - first_s, 1e-9)

    def generate_s(self, prompt_lengths: Sequence[int], num_tokens: int) -> float:
        """Return the seconds of one static batch, its prompts padded to the longest."""
        widest = max(prompt_lengths)
        ids = torch.zeros(len(prompt_lengths), widest, dtype=torch.int64)
        mask = torch.zeros_like(ids)
        for row, length in enumerate(prompt_lengths):
            ids[row, widest - length :] = torch.tensor(self.prompt(length))
            mask[row, widest - length :] = 1
        ids, mask = ids.to(self._bench.device), mask.to(self._bench.device)
        self._bench.watch.settle()
        started_s = time.perf_counter()
        with torch.inference_mode():
            self.model.generate(
                ids,
                attention_mask=mask,
                min_new_tokens=num_tokens,
                max_new_tokens=num_tokens,
                do_sample=False,
            )
        self._bench.watch.settle()
        return time.perf_counter() - started_s

    def continuous_per_s(self, rows: int, *, prompt_tokens: int, num_tokens: int) -> float:
        """Return tokens a second of its continuous batching, reading the prompts included.

        Raises whatever it raises on this machine.
        """
        import transformers

        wanted = transformers.GenerationConfig(
            max_new_tokens=num_tokens, do_sample=False, eos_token_id=-1, pad_token_id=0
        )
        # On a card it sizes its memory itself; on the CPU it would take all there is.
        limits = transformers.ContinuousBatchingConfig(
            **self._bench.pick({}, {"num_blocks": 8, "max_batch_tokens": 64})
        )
        seconds, count = 0.0, 0
        for timed in (2, rows):
            prompts = [self.prompt(prompt_tokens) for _ in range(timed)]
            started_s = time.perf_counter()
            outputs = self.model.generate_batch(
                inputs=prompts, generation_config=wanted, continuous_batching_config=limits
            )
            self._bench.watch.settle()
            seconds = time.perf_counter() - started_s
            count = sum(len(output.generated_tokens) for output in outputs.values())
        if count != rows * num_tokens:
            raise RuntimeError(f"it made {count:,} of {rows * num_tokens:,} tokens")
        return count / seconds
