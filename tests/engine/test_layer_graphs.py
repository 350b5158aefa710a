"""The parts between two attentions: a token's numbers are its own, on any number of threads."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from localpaged.engine.eight_bit import to_eight_bit
from localpaged.engine.layer_graphs import open_parts
from localpaged.models.open_model import open_model
from localpaged.models.weights import load_state
from testkit.decoders import needs_eight_bit_operator
from testkit.tiny_model import FAMILIES, save_tiny_model

pytestmark = needs_eight_bit_operator
TOKENS = 70
"""More than a product's tile of rows, and no multiple of one."""


@pytest.fixture(scope="module", params=FAMILIES)
def state_of(request, tmp_path_factory):
    """Return the configuration of a small model and what makes its state dict in 8 bits."""
    folder = tmp_path_factory.mktemp("model") / request.param
    opened = open_model(save_tiny_model(folder, request.param))
    config = replace(opened.config, num_layers=1)
    state = to_eight_bit(opened.config, load_state(opened, dtype=torch.float32))
    return config, lambda: dict(state)


def unaligned(numbers):
    """Return the same numbers at an address that is no multiple of a vector's width."""
    memory = np.empty(numbers.nbytes + 4, dtype=np.uint8)
    copy = memory[4:].view(numbers.dtype).reshape(numbers.shape)
    copy[...] = numbers
    return copy


def results(config, state, *, num_threads, rows=slice(0, TOKENS), place=np.ascontiguousarray):
    """Return hidden states, queries, K and V and logits of some of the same random tokens."""
    generator = np.random.default_rng(2)

    def numbers(width):
        whole = generator.standard_normal((TOKENS, width), dtype=np.float32)
        loudness = np.logspace(-3, 3, TOKENS, dtype=np.float32)[:, None]
        return place((whole * loudness)[rows])

    (first, last), head = open_parts(config, state, num_threads=num_threads)
    hidden = numbers(config.hidden_size)
    attended = numbers(config.num_heads * config.head_dim)
    angles = generator.random((TOKENS, config.head_dim // 2), dtype=np.float32)[rows]
    begun = first(
        {
            "hidden": hidden,
            "places": np.arange(len(hidden)).reshape(1, -1),
            "cos": place(np.cos(angles)),
            "sin": place(np.sin(angles)),
        }
    )
    (behind,) = last({"hidden": hidden, "attended": attended})
    (logits,) = head({"hidden": hidden})
    return [*(part[0] for part in begun), behind, logits]


@pytest.mark.parametrize("rows", [(0, 1), (7, 9), (69, 70), (3, 60)])
def test_a_token_gets_the_same_numbers_whoever_is_beside_it(state_of, rows):
    config, state = state_of
    chosen = slice(*rows)
    together = results(config, state(), num_threads=1)
    alone = results(config, state(), num_threads=1, rows=chosen)
    for whole, part in zip(together, alone, strict=True):
        assert np.array_equal(whole[chosen], part)


def test_neither_threads_nor_addresses_change_a_bit(state_of):
    config, state = state_of
    expected = results(config, state(), num_threads=1)
    for num_threads, place in ((3, np.ascontiguousarray), (1, unaligned)):
        found = results(config, state(), num_threads=num_threads, place=place)
        for one, other in zip(expected, found, strict=True):
            assert np.array_equal(one, other)


def test_weights_are_taken_out_of_the_state_dict(state_of):
    config, state = state_of
    rest = state()
    open_parts(config, rest, num_threads=1)
    taken = [name for name in rest if name.startswith(("layers.0.", "head"))]
    assert not [name for name in taken if name.endswith(".eight_bit")]
