"""A step of a row or two is six launches a layer, and computes what steps of more rows do."""

import os

import pytest
import torch

from localpaged.engine.batch import build_batch
from localpaged.engine.few_rows import few_rows_of
from localpaged.engine.kv_storage import KVStorage
from localpaged.engine.linear import DenseLinear
from localpaged.engine.operators import torch_operators, triton_operators
from localpaged.engine.params import SamplingParams
from localpaged.engine.step_plan import PlannedRow, StepPlan
from localpaged_kernels.launch import Launch
from testkit.decoders import load_decoder
from testkit.tiny_model import save_tiny_model

pytestmark = pytest.mark.skipif(
    os.environ.get("TRITON_INTERPRET") != "1", reason="tensors are the CPU's"
)
FEW = ["project", "rope_write", "attend", "project", "project", "project"]
MORE = ["add_rms_norm", "rope_write", "attend", "add_rms_norm", "gated"]


def step(decoder, num_rows):
    """Return the hidden states of so many first tokens, each of a sequence of its own."""
    kv = KVStorage(
        decoder.config,
        num_blocks=8,
        block_size=16,
        dtype=torch.float32,
        operators=decoder.operators,
    )
    rows = tuple(
        PlannedRow(i, "", (7 + i,), 0, (2 + i,), SamplingParams(), draws=())
        for i in range(num_rows)
    )
    return decoder.forward(build_batch(StepPlan(rows, ()), block_size=16), kv)


@pytest.fixture
def launched(monkeypatch):
    names = []
    run = Launch.run

    def counted(launch):
        names.append(launch.kernel.fn.__name__)
        run(launch)

    monkeypatch.setattr(Launch, "run", counted)
    return names


@pytest.mark.parametrize(
    ("num_rows", "a_layer"), [(1, FEW), (2, FEW), (3, MORE)], ids=["one", "two", "three"]
)
def test_norms_and_gate_of_few_rows_are_no_launches_of_their_own(
    tmp_path, launched, num_rows, a_layer
):
    save_tiny_model(tmp_path, "qwen3", num_hidden_layers=2)
    decoder, _ = load_decoder(tmp_path, operators=triton_operators())
    step(decoder, num_rows)
    assert launched == a_layer * 2


@pytest.mark.parametrize("is_chained", [False, True])
def test_launches_begin_while_others_end_only_where_that_is_asked_for(
    tmp_path, monkeypatch, is_chained
):
    chained = []
    monkeypatch.setattr(Launch, "run", lambda launch: chained.append(launch.is_chained))
    save_tiny_model(tmp_path, "qwen3", num_hidden_layers=2)
    decoder, _ = load_decoder(tmp_path, operators=triton_operators(is_chained=is_chained))
    step(decoder, 1)
    assert chained == [is_chained] * len(FEW) * 2


@pytest.mark.parametrize("family", ["llama", "qwen2", "qwen3", "gemma2"])
@pytest.mark.parametrize("num_rows", [1, 2])
def test_few_rows_become_what_torch_makes_of_them(tmp_path, family, num_rows):
    save_tiny_model(tmp_path, family, num_hidden_layers=2)
    ours, want = (
        step(load_decoder(tmp_path, dtype=torch.float32, operators=operators)[0], num_rows)
        for operators in (triton_operators(), torch_operators())
    )
    torch.testing.assert_close(ours, want, atol=2e-4, rtol=2e-4)


def test_matrices_that_are_not_dense_have_their_own_way():
    dense = DenseLinear(torch.zeros(4, 4))
    norms = torch.ones(4), torch.ones(4)
    options = {"eps": 1e-6, "activation": "silu"}
    assert few_rows_of(torch_operators(), (dense,) * 4, norms, **options) is None
    assert few_rows_of(triton_operators(), (dense,) * 3 + (abs,), norms, **options) is None
    few = few_rows_of(triton_operators(), (dense,) * 4, norms, **options)
    assert few.takes(torch.zeros(2, 4))
    assert not few.takes(torch.zeros(3, 4))
    assert not few.takes(torch.zeros(1, 4, dtype=torch.bfloat16))
