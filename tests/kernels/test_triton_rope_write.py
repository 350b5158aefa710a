"""The fused norm, rotation and write does what its parts do one after the other."""

import pytest
import torch
import torch.nn.functional as F

from localpaged.decoder_config import DecoderConfig
from localpaged.engine.rope import RopeTable, rotate
from localpaged_kernels import UnsupportedShape, write_kv
from localpaged_kernels.rope_write import reference, triton_impl
from testkit.triton_inputs import DEVICE, endless

BF16, HALF, FP32 = torch.bfloat16, torch.float16, torch.float32
INT8, FP8 = torch.int8, torch.float8_e4m3fn
TOLERANCE = {FP32: 1e-5, BF16: 1e-2, HALF: 1e-3}


def inputs(*, dim=64, heads=3, kv_heads=2, dtype=BF16, kv_dtype=None, has_norm=True, tokens=5):
    generator = torch.Generator().manual_seed(0)

    def random(*shape):
        return torch.randn(*shape, generator=generator)

    angles = torch.outer(torch.arange(50.0), 1e4 ** -(torch.arange(0, dim, 2) / dim))
    kv = torch.zeros(6, 16, 2, kv_heads, dim, dtype=kv_dtype or dtype)
    return {
        "qkv": random(tokens, heads + 2 * kv_heads, dim).to(dtype) * 3,
        "kv": kv,
        "slots": torch.tensor([17, 95, 0, 64, 18])[:tokens],
        "positions": torch.tensor([0, 7, 49, 3, 11])[:tokens],
        "cos": angles.cos().repeat(1, 2),
        "sin": torch.cat((-angles.sin(), angles.sin()), -1),
        "scales": None if kv_dtype is None else torch.zeros(kv.shape[:-1]),
        "q_norm": random(dim).to(dtype) if has_norm else None,
        "k_norm": random(dim).to(dtype) if has_norm else None,
    }


def on_device(tensors):
    return {k: v.to(DEVICE) if isinstance(v, torch.Tensor) else v for k, v in tensors.items()}


def run(operator, tensors):
    places = ("qkv", "kv", "slots")
    named = {name: value for name, value in tensors.items() if name not in places}
    return operator(*(tensors[name] for name in places), **named, eps=1e-6)


def read(tensors):
    kv = tensors["kv"].cpu().float()
    scales = tensors["scales"]
    return kv if scales is None else kv * scales.cpu().unsqueeze(-1)


@pytest.mark.parametrize("has_norm", [True, False])
@pytest.mark.parametrize(
    ("dtype", "kv_dtype"),
    [(FP32, None), (BF16, None), (HALF, None), (BF16, INT8), (HALF, FP8), (FP32, FP8)],
    ids=str,
)
def test_it_agrees_with_the_reference(dtype, kv_dtype, has_norm):
    tensors = inputs(dtype=dtype, kv_dtype=kv_dtype, has_norm=has_norm)
    card = on_device({k: None if v is None else v.clone() for k, v in tensors.items()})
    got, want = run(triton_impl.rope_write, card), run(reference.rope_write, tensors)
    tolerance = TOLERANCE[dtype]
    torch.testing.assert_close(got.cpu(), want, atol=tolerance, rtol=tolerance)
    if kv_dtype is None:
        torch.testing.assert_close(read(card), read(tensors), atol=tolerance, rtol=tolerance)
    else:
        scales = tensors["scales"]
        torch.testing.assert_close(card["scales"].cpu(), scales, atol=0, rtol=1e-2)
        # A sum that was rounded otherwise in bfloat16 is a step off, and so may its scale be.
        step = scales.unsqueeze(-1) * (2.1 if kv_dtype is INT8 else 32.1)
        assert ((read(card) - read(tensors)).abs() <= step).all()


@pytest.mark.parametrize("dim", [80, 96, 112, 128, 256])
def test_every_head_size(dim):
    tensors = inputs(dim=dim, heads=5, kv_heads=1)
    card = on_device({k: None if v is None else v.clone() for k, v in tensors.items()})
    got, want = run(triton_impl.rope_write, card), run(reference.rope_write, tensors)
    torch.testing.assert_close(got.cpu(), want, atol=2e-2, rtol=1e-2)
    torch.testing.assert_close(read(card), read(tensors), atol=2e-2, rtol=1e-2)


@pytest.mark.parametrize("kv_dtype", [INT8, FP8], ids=str)
def test_values_are_rounded_as_the_plain_write_rounds_them_to_the_bit(kv_dtype):
    tensors = inputs(dtype=FP32, kv_dtype=kv_dtype, dim=256, kv_heads=1)
    # The scale is 1, and many numbers lie halfway between two that there are.
    halves = torch.cat((torch.arange(-127, 127) + 0.5, torch.tensor([127.0, 0.0])))
    whole = torch.cat((torch.arange(-127, 128), torch.tensor([448])))
    tensors["qkv"][0, -1] = halves if kv_dtype is INT8 else whole
    tensors["qkv"][1, -1] = torch.logspace(-5, 0, 256) * 448
    tensors["qkv"][2, -1] = 0
    card = on_device({k: None if v is None else v.clone() for k, v in tensors.items()})
    run(triton_impl.rope_write, card)
    want, scales = torch.zeros_like(tensors["kv"]), torch.zeros_like(tensors["scales"])
    write_kv(
        want, tensors["qkv"][:, -2:-1], tensors["qkv"][:, -1:], tensors["slots"], scales=scales
    )
    got = card["kv"].cpu()
    assert torch.equal(got[:, :, 1].view(torch.uint8), want[:, :, 1].view(torch.uint8))
    assert torch.equal(card["scales"].cpu()[:, :, 1], scales[:, :, 1])


@pytest.mark.parametrize("bad", [float("nan"), float("inf")])
@pytest.mark.parametrize("kv_dtype", [INT8, FP8], ids=str)
def test_what_is_not_finite_stays_visible(bad, kv_dtype):
    tensors = inputs(kv_dtype=kv_dtype, has_norm=False)
    tensors["qkv"][1, -1, 9] = bad
    card = on_device(tensors)
    run(triton_impl.rope_write, card)
    kv, block, inside = read(card), 95 // 16, 95 % 16
    assert not kv[block, inside, 1, 1].isfinite().all()
    kv[block, inside, 1, 1] = 0
    assert kv.isfinite().all()


def test_no_other_slot_is_touched_and_memory_between_heads_is_not_read():
    tensors = inputs()
    wide = torch.full((5, 11, 64), float("nan"), dtype=BF16)
    wide[:, :7] = tensors["qkv"]
    tensors["qkv"] = wide[:, :7]
    tensors["kv"].fill_(77)
    card = on_device(tensors)
    assert run(triton_impl.rope_write, card).isfinite().all()
    is_written = (card["kv"] != 77).any(-1).all(-1).all(-1).flatten()
    assert is_written.nonzero()[:, 0].tolist() == sorted(tensors["slots"].tolist())
    assert (card["kv"] != 77).any(-1).sum() == 5 * 2 * 2


def test_slots_beyond_two_to_the_31st_element():
    num_blocks = 2**31 // (16 * 2 * 2 * 128) + 2
    tensors = inputs(dim=128, kv_dtype=INT8)
    tensors["kv"] = endless((num_blocks, 16, 2, 2, 128), INT8)
    tensors["scales"] = endless((num_blocks, 16, 2, 2), FP32)
    tensors["slots"] = torch.arange(5) + num_blocks * 16 - 5
    near = inputs(dim=128, kv_dtype=INT8)
    near["slots"] = torch.arange(5) + 6 * 16 - 5
    card = on_device(tensors)
    run(triton_impl.rope_write, card)
    run(triton_impl.rope_write, near_card := on_device(near))
    assert torch.equal(card["kv"][-1].cpu(), near_card["kv"][-1].cpu())
    assert card["kv"][-1].any()


def test_the_reference_is_the_decoders_norm_and_rotation():
    tensors = inputs(dtype=FP32)
    config = DecoderConfig("qwen3", 9, 9, 9, 1, 3, 2, 64, 50, 1e-6, 10000.0)
    cos, sin = RopeTable(config, dtype=FP32).at(tensors["positions"])
    queries = F.rms_norm(tensors["qkv"][:, :3], (64,), tensors["q_norm"], 1e-6)
    got = run(reference.rope_write, tensors)
    torch.testing.assert_close(got, rotate(queries, cos, sin), atol=1e-5, rtol=1e-5)
    torch.testing.assert_close(tensors["cos"][tensors["positions"]], cos[:, 0])


@pytest.mark.parametrize("operator", [reference.rope_write, triton_impl.rope_write])
def test_what_does_not_fit_is_refused(operator):
    tensors = inputs()
    for change in (
        {"qkv": tensors["qkv"][:, :4]},
        {"k_norm": None},
        {"scales": torch.zeros(1)},
    ):
        with pytest.raises(UnsupportedShape):
            run(operator, {**tensors, **change})
