"""A machine that is looked at: its parts are those of a test, its folders are real."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from localpaged.doctor.examine import Seams, examine
from localpaged.doctor.fact import Fact
from localpaged.doctor.nvidia import Nvidia
from localpaged.doctor.torch_build import TorchBuild
from testkit.machines import CPU_BUILD, PIPE

Facts = dict[str, Fact]


@pytest.fixture
def look() -> Callable[..., Facts]:
    """Look at a machine; its facts by name, the last of each."""

    def look(**parts: Any) -> Facts:
        found: dict[str, Any] = {
            "nvidia": Nvidia(),
            "build": CPU_BUILD,
            "streams": PIPE,
            "environment": {},
        }
        found |= parts

        def torch() -> TorchBuild:
            if isinstance(found["build"], Exception):
                raise found["build"]
            return found["build"]  # type: ignore[no-any-return]

        report = examine(
            Seams(
                read_nvidia=lambda: found["nvidia"],
                read_torch=torch,
                read_streams=lambda: found["streams"],
                environment=found["environment"],
            )
        )
        return {fact.name: fact for group in report.groups for fact in group.facts}

    return look
