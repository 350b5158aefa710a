"""Other engines doing the same work, for ratios within one run."""

from __future__ import annotations

import importlib.util
import random
import time
from pathlib import Path
from typing import Any

import psutil

CONTEXT_TOKENS = 256
PREFILL_TOKENS = 1_024


def available_peers(gguf: Path, decode_tokens: int) -> list[Any]:
    """Return the peers that are installed here."""
    peers: list[Any] = [Transformers(gguf, decode_tokens)]
    if importlib.util.find_spec("llama_cpp"):
        peers.append(LlamaCpp(gguf, decode_tokens))
    if importlib.util.find_spec("openvino_genai"):
        peers.append(OpenVino(gguf, decode_tokens))
    return peers


class Transformers:
    """transformers' `generate` in bfloat16, one static batch."""

    name = "transformers"

    def __init__(self, gguf: Path, decode_tokens: int) -> None:
        import torch
        import transformers

        self._torch = torch
        self._decode_tokens = decode_tokens
        self._model = transformers.AutoModelForCausalLM.from_pretrained(
            gguf.parent, gguf_file=gguf.name, dtype=torch.bfloat16
        )
        self._model.generation_config.eos_token_id = None
        self._random = random.Random(1)
        # Our own steps leave torch one thread: they have threads of their own.
        self._threads = psutil.cpu_count(logical=False) or 1

    def decode(self, chats: int) -> float:
        """Return tokens a second of `chats` sequences after their first token."""
        first_s = self._generate(chats, CONTEXT_TOKENS, 1)
        whole_s = self._generate(chats, CONTEXT_TOKENS, self._decode_tokens)
        return chats * (self._decode_tokens - 1) / (whole_s - first_s)

    def prefill(self) -> float:
        """Return prompt tokens a second."""
        return PREFILL_TOKENS / self._generate(1, PREFILL_TOKENS, 1)

    def static_batch(self, lengths: list[tuple[int, int]]) -> None:
        """Answer requests of (prompt, answer) tokens together, padded to the longest of each."""
        torch = self._torch
        torch.set_num_threads(self._threads)
        widest = max(prompt for prompt, _ in lengths)
        ids = torch.zeros(len(lengths), widest, dtype=torch.int64)
        mask = torch.zeros_like(ids)
        for row, (prompt, _) in enumerate(lengths):
            tokens = [self._random.randrange(100, 40_000) for _ in range(prompt)]
            ids[row, widest - prompt :] = torch.tensor(tokens)
            mask[row, widest - prompt :] = 1
        with torch.inference_mode():
            self._model.generate(
                ids,
                attention_mask=mask,
                max_new_tokens=max(answer for _, answer in lengths),
                do_sample=False,
            )

    def _generate(self, rows: int, prompt_tokens: int, new_tokens: int) -> float:
        prompts = [
            [self._random.randrange(100, 40_000) for _ in range(prompt_tokens)] for _ in range(rows)
        ]
        ids = self._torch.tensor(prompts)
        self._torch.set_num_threads(self._threads)
        started_s = time.perf_counter()
        with self._torch.inference_mode():
            self._model.generate(
                ids,
                attention_mask=self._torch.ones_like(ids),
                max_new_tokens=new_tokens,
                do_sample=False,
            )
        return time.perf_counter() - started_s


class LlamaCpp:
    """llama.cpp through llama-cpp-python, sequences in one batch."""

    name = "llama.cpp"

    def __init__(self, gguf: Path, decode_tokens: int) -> None:
        import llama_cpp

        self._lib = llama_cpp
        self._decode_tokens = decode_tokens
        self._random = random.Random(2)
        llama_cpp.llama_backend_init()
        params = llama_cpp.llama_model_default_params()
        self._model = llama_cpp.llama_model_load_from_file(str(gguf).encode(), params)

    def decode(self, chats: int) -> float:
        """Return tokens a second of `chats` sequences after their prompts."""
        context = self._context(chats, chats * (CONTEXT_TOKENS + self._decode_tokens))
        for chat in range(chats):
            self._run(context, [(self._token(), i, chat) for i in range(CONTEXT_TOKENS)])
        started_s = time.perf_counter()
        for step in range(self._decode_tokens - 1):
            position = CONTEXT_TOKENS + step
            self._run(context, [(self._token(), position, chat) for chat in range(chats)])
        seconds = time.perf_counter() - started_s
        self._lib.llama_free(context)
        return chats * (self._decode_tokens - 1) / seconds

    def prefill(self) -> float:
        """Return prompt tokens a second."""
        context = self._context(1, PREFILL_TOKENS)
        tokens = [(self._token(), i, 0) for i in range(PREFILL_TOKENS)]
        started_s = time.perf_counter()
        self._run(context, tokens)
        seconds = time.perf_counter() - started_s
        self._lib.llama_free(context)
        return PREFILL_TOKENS / seconds

    def _context(self, chats: int, num_tokens: int) -> Any:
        import os

        params = self._lib.llama_context_default_params()
        params.n_ctx = num_tokens + 64 * chats
        params.n_batch = params.n_ubatch = 512
        params.n_seq_max = chats
        params.kv_unified = True
        params.n_threads = params.n_threads_batch = os.cpu_count() or 1
        return self._lib.llama_init_from_model(self._model, params)

    def _token(self) -> int:
        return self._random.randrange(100, 40_000)

    def _run(self, context: Any, entries: list[tuple[int, int, int]]) -> None:
        for start in range(0, len(entries), 512):
            part = entries[start : start + 512]
            batch = self._lib.llama_batch_init(len(part), 0, 1)
            batch.n_tokens = len(part)
            for i, (token, position, chat) in enumerate(part):
                batch.token[i], batch.pos[i] = token, position
                batch.n_seq_id[i], batch.seq_id[i][0] = 1, chat
                batch.logits[i] = i == len(part) - 1 or len(part) <= 64
            assert self._lib.llama_decode(context, batch) == 0
            self._lib.llama_batch_free(batch)


class OpenVino:
    """OpenVINO GenAI's continuous batching on the same GGUF file."""

    name = "OpenVINO GenAI"

    def __init__(self, gguf: Path, decode_tokens: int) -> None:
        import openvino
        import openvino_genai

        self._openvino, self._lib = openvino, openvino_genai
        self._decode_tokens = decode_tokens
        self._random = random.Random(3)
        scheduler = openvino_genai.SchedulerConfig()
        scheduler.cache_size = 1  # GiB
        scheduler.max_num_batched_tokens = 512
        scheduler.enable_prefix_caching = False
        self._pipeline = openvino_genai.ContinuousBatchingPipeline(str(gguf), scheduler, "CPU")
        self._generate(1, CONTEXT_TOKENS, 4)  # compiles what it needs

    def decode(self, chats: int) -> float:
        """Return tokens a second of `chats` sequences after their first token."""
        first_s = self._generate(chats, CONTEXT_TOKENS, 1)
        whole_s = self._generate(chats, CONTEXT_TOKENS, self._decode_tokens)
        return chats * (self._decode_tokens - 1) / (whole_s - first_s)

    def prefill(self) -> float:
        """Return prompt tokens a second."""
        return PREFILL_TOKENS / self._generate(1, PREFILL_TOKENS, 1)

    def _generate(self, rows: int, prompt_tokens: int, new_tokens: int) -> float:
        import numpy as np

        prompts = [
            self._openvino.Tensor(
                np.array([[self._random.randrange(100, 40_000) for _ in range(prompt_tokens)]])
            )
            for _ in range(rows)
        ]
        config = self._lib.GenerationConfig()
        config.max_new_tokens = new_tokens
        config.ignore_eos = True
        config.do_sample = False
        started_s = time.perf_counter()
        self._pipeline.generate(prompts, [config] * rows)
        return time.perf_counter() - started_s
