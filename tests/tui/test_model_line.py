"""What the top line says of the model that answers, and where."""

from __future__ import annotations

import pytest

from localpaged.engine.events import ReadyEvent
from localpaged.tui.chrome import model_runs
from localpaged.tui.glyphs import UNICODE
from localpaged.tui.workspace import EngineStatus


@pytest.mark.parametrize(
    ("ready", "end"),
    [
        (ReadyEvent("tiny", "cuda:0", "bfloat16", 64, 0.0), "tiny  cuda:0 · bfloat16"),
        (ReadyEvent("tiny", "cpu", "int8", 64, 0.0), "tiny  cpu · int8"),
        (
            ReadyEvent("http://box:8000/v1", "box:8000", "", 0, 0.0, is_endpoint=True),
            "http://box:8000/v1",
        ),
        (ReadyEvent("big", "box:8000", "", 0, 0.0, is_endpoint=True), "big  box:8000"),
        # a model here may be called what it likes
        (ReadyEvent("cpu-model", "cpu", "int8", 64, 0.0), "cpu-model  cpu · int8"),
    ],
)
def test_a_device_is_told_and_an_address_is_told_once(ready, end):
    status = EngineStatus()
    status.ready = ready
    text = "".join(run.text for run in model_runs(status, UNICODE))
    assert text.rstrip().endswith(end)
    assert text.count("box:8000") <= 1
