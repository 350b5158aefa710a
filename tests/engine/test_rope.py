"""Angles of positions: right to the last digit, and so the same in every process."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
import torch

from localpaged.engine.rope import RopeTable
from testkit.history_model import CONFIG


@pytest.mark.parametrize("position", [0, 1, 2_047, 8_191])
def test_cosines_and_sines_are_those_of_the_angle_rounded_once(position):
    config = replace(CONFIG, head_dim=64, context_length=8_192)
    table = RopeTable(config, dtype=torch.float32)
    half = config.head_dim // 2
    for pair in range(half):
        exponent = torch.tensor(2 * pair, dtype=torch.float32) / config.head_dim
        angle = float(position * (1.0 / config.rope_theta**exponent))
        cos, sin = (torch.tensor(f(angle), dtype=torch.float32) for f in (math.cos, math.sin))
        assert table.cos[position, [pair, half + pair]].tolist() == [cos.item()] * 2
        assert table.sin[position, [pair, half + pair]].tolist() == [-sin.item(), sin.item()]
