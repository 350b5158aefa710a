"""The team's decoder: to the last bit the same however a step was cut, and gone when dropped."""

import gc
import os
import signal
import subprocess
import sys
import threading
import time
from itertools import pairwise
from pathlib import Path

import pytest
import torch

from localpaged.engine.eight_bit import can_be_eight_bit, can_be_grouped, to_eight_bit
from localpaged.models.open_model import open_model
from localpaged.models.weights import load_state
from testkit.decoders import needs_eight_bit
from testkit.tiny_model import FAMILIES, save_tiny_model

pytest.importorskip("numba")

from localpaged.engine.team_decoder import TeamDecoder
from testkit.team_sequences import Sequences

pytestmark = needs_eight_bit

LENGTH = 200
"""Tokens of a sequence: a piece of 128 keys and some."""


@pytest.fixture(scope="module", params=FAMILIES)
def opened(request, tmp_path_factory):
    folder = tmp_path_factory.mktemp("m") / request.param
    overrides = {"max_position_embeddings": 256, "head_dim": 16}
    opened = open_model(save_tiny_model(folder, request.param, **overrides))
    assert can_be_eight_bit(opened.config) and can_be_grouped(opened.config)
    return opened


@pytest.fixture(params=["eight bits", "four bits"])
def make(request):
    """Return what makes a model's decoder in one of the forms that a team computes with."""

    def made(opened, threads=2):
        if request.param == "four bits":
            state = load_state(opened, dtype=torch.float32, weights="int4")
        else:
            state = to_eight_bit(opened.config, load_state(opened, dtype=torch.float32))
        return TeamDecoder(opened.config, state, threads=threads)

    return made


def ids_of(opened, seed=0):
    generator = torch.Generator().manual_seed(seed)
    return torch.randint(opened.config.vocab_size, (LENGTH,), generator=generator).tolist()


@pytest.mark.parametrize("kv_dtype", [torch.float32, torch.bfloat16, torch.int8], ids=str)
def test_a_token_is_the_same_to_the_last_bit_however_it_was_read(opened, make, kv_dtype):
    decoder, ids, others = make(opened), ids_of(opened), ids_of(opened, 1)
    whole = Sequences(decoder, kv_dtype).step((0, ids, 0, LENGTH))[0]
    pieces = Sequences(decoder, kv_dtype)
    cuts = [0, 1, 17, 100, 130, *range(131, LENGTH + 1)]
    for start, end in pairwise(cuts):
        assert torch.equal(pieces.step((0, ids, start, end))[0], whole[start:end])
    beside = Sequences(decoder, kv_dtype)
    beside.step((1, others, 0, 150), (2, others, 0, 60))
    beside.step((1, others, 150, 151), (0, ids, 0, 150), (2, others, 60, 70))
    for at in range(150, LENGTH):
        rows = beside.step((1, others, at + 1, at + 2), (0, ids, at, at + 1)) if at < 198 else None
        found = beside.step((0, ids, at, at + 1))[0] if rows is None else rows[1]
        assert torch.equal(found, whole[at : at + 1])


@pytest.mark.parametrize("threads", [1, 3, 8])
def test_it_is_the_same_on_any_number_of_threads(opened, make, threads):
    ids = ids_of(opened)
    expected = Sequences(make(opened, 2)).step((0, ids, 0, LENGTH))[0]
    decoder = make(opened, threads)
    found = Sequences(decoder).step((0, ids, 0, LENGTH))[0]
    assert torch.equal(found, expected)
    assert torch.equal(decoder.logits(found[-3:])[2], decoder.logits(found[-1:])[0])


def num_descriptors():
    return len(list(Path("/proc/self/fd").iterdir()))


def team_threads():
    return [thread for thread in threading.enumerate() if thread.name.startswith("team-")]


def until(is_so, seconds=20):
    deadline = time.monotonic() + seconds
    while not is_so() and time.monotonic() < deadline:
        time.sleep(0.01)
    return is_so()


@pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="nobody tells descriptors here")
def test_threads_and_their_pipes_end_with_the_decoder(opened, make):
    gc.collect()
    assert until(lambda: not team_threads())
    before = num_descriptors()
    for _ in range(10):
        decoder = make(opened, 3)
        Sequences(decoder).step((0, ids_of(opened), 0, 20))
        assert len(team_threads()) >= 2
        del decoder
    gc.collect()
    assert until(lambda: not team_threads() and num_descriptors() == before)


def test_two_decoders_do_not_meet(opened, make):
    first, second = make(opened), make(opened, 3)
    ids = ids_of(opened)
    expected = Sequences(first).step((0, ids, 0, 50))[0]
    for _ in range(20):
        assert torch.equal(Sequences(second).step((0, ids, 0, 50))[0], expected)
        assert torch.equal(Sequences(first).step((0, ids, 0, 50))[0], expected)


def test_signals_wake_nobody_for_nothing(opened, make):
    decoder, ids = make(opened, 3), ids_of(opened)
    expected = Sequences(decoder).step((0, ids, 0, 20))[0]
    heard = []
    before = signal.signal(signal.SIGUSR1, lambda *_: heard.append(1))
    try:
        time.sleep(0.02)  # the team sleeps by now
        for thread in team_threads():
            signal.pthread_kill(thread.ident, signal.SIGUSR1)
        assert until(lambda: heard)
        assert torch.equal(Sequences(decoder).step((0, ids, 0, 20))[0], expected)
    finally:
        signal.signal(signal.SIGUSR1, before)


def test_a_process_ends_beside_a_living_team():
    code = (
        "import sys; from localpaged_kernels.cpu_step.threads import Team, prepare\n"
        "prepare(); team = Team(3); print('ready', flush=True)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=100, check=False
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "ready\n", "")


def test_a_step_ends_while_others_want_the_processor(opened, make):
    busy = [
        subprocess.Popen([sys.executable, "-c", "while True: pass"])
        for _ in range(2 * (os.cpu_count() or 1))
    ]
    try:
        decoder, ids = make(opened, 3), ids_of(opened)
        sequences = Sequences(decoder)
        started_s = time.perf_counter()
        for _ in range(20):
            sequences.step((0, ids, 0, 100))
        assert time.perf_counter() - started_s < 30
    finally:
        for process in busy:
            process.kill()
            process.wait()
