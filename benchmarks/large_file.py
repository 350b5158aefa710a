"""Speed on a larger 4-bit file: in its 4 bits, in 8 bits, and llama.cpp on the same file.

    python benchmarks/large_file.py [--repeats 2] [--out FILE.json]

The file has random numbers in Q4_0, 606 million of them, in the shape of a Llama with the default
model's vocabulary: what a model says costs no more than what it does not. llama-cpp-python is
measured where it is installed.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import tempfile
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

from engine import DECODE_TOKENS, Ours, Row, machine, measure, print_table
from localpaged.models.catalogue import DEFAULT_MODEL
from localpaged.models.registry import find_model
from peers import LlamaCpp

HIDDEN, INNER, LAYERS = 1_536, 4_608, 24
HEADS, KV_HEADS, HEAD_DIM = 12, 4, 128
SIZES = {
    "llama.embedding_length": HIDDEN,
    "llama.feed_forward_length": INNER,
    "llama.block_count": LAYERS,
    "llama.attention.head_count": HEADS,
    "llama.attention.head_count_kv": KV_HEADS,
    "llama.attention.key_length": HEAD_DIM,
    "llama.attention.value_length": HEAD_DIM,
    "llama.rope.dimension_count": HEAD_DIM,
}
LINEARS = {
    "attn_q": (HEADS * HEAD_DIM, HIDDEN),
    "attn_k": (KV_HEADS * HEAD_DIM, HIDDEN),
    "attn_v": (KV_HEADS * HEAD_DIM, HIDDEN),
    "attn_output": (HIDDEN, HEADS * HEAD_DIM),
    "ffn_gate": (INNER, HIDDEN),
    "ffn_up": (INNER, HIDDEN),
    "ffn_down": (HIDDEN, INNER),
}
SPREAD = 0.7
"""Of the weights, in units of 1/√inputs: so that numbers neither grow nor vanish."""


def write_file(path: Path, like: Path) -> None:
    """Write a GGUF file of random weights with the vocabulary of another one."""
    import gguf

    kinds = gguf.GGMLQuantizationType
    source, writer = gguf.GGUFReader(like), gguf.GGUFWriter(path, "llama")
    vocabulary = next(t.shape[1] for t in source.tensors if t.name == "token_embd.weight")
    for name, field in source.fields.items():
        if not name.startswith("GGUF.") and name != "general.architecture" and name not in SIZES:
            kind, *of = field.types
            writer.add_key_value(name, field.contents(), kind, *of[:1])
    for name, size in SIZES.items():
        writer.add_uint32(name, size)
    numbers = np.random.default_rng(0)

    def add(name: str, shape: tuple[int, int], kind: Any) -> None:
        drawn = numbers.standard_normal(shape, dtype=np.float32) * (SPREAD / shape[1] ** 0.5)
        writer.add_tensor(name, gguf.quants.quantize(drawn, kind), raw_dtype=kind)

    add("token_embd.weight", (int(vocabulary), HIDDEN), kinds.Q8_0)
    for layer in range(LAYERS):
        for name in ("attn_norm", "ffn_norm"):
            writer.add_tensor(f"blk.{layer}.{name}.weight", np.ones(HIDDEN, np.float32))
        for name, shape in LINEARS.items():
            add(f"blk.{layer}.{name}.weight", shape, kinds.Q4_0)
    writer.add_tensor("output_norm.weight", np.ones(HIDDEN, np.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def main() -> None:
    """Measure, print a table, write JSON."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--repeats", type=int, default=2)
    parser.add_argument("--out", type=Path, default=Path("benchmarks/results/large-file.json"))
    arguments = parser.parse_args()
    results: dict[str, list[Row]] = {}
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "random-q4_0.gguf"
        write_file(path, find_model(DEFAULT_MODEL).path)
        for dtype in ("int4", "int8"):
            results[dtype] = measure(Ours(str(path), dtype), repeats=arguments.repeats)
        if importlib.util.find_spec("llama_cpp"):
            peer = LlamaCpp(path, DECODE_TOKENS)
            results["llama.cpp"] = measure(peer, repeats=arguments.repeats)
    print_table(results)
    content = {
        "machine": machine(),
        "parameters": "606 million, random, Q4_0",
        "figures": {name: [asdict(row) for row in rows] for name, rows in results.items()},
    }
    arguments.out.write_text(json.dumps(content, indent=2) + "\n")


if __name__ == "__main__":
    main()
