"""Endpoints that answer from a script, and the program around them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial

import pytest

from localpaged import paths, wiring
from localpaged.config import Settings
from localpaged.remote import client
from localpaged.remote.endpoint import Endpoint
from localpaged.remote.patience import Patience
from testkit.builders import Recorder
from testkit.endpoint_runs import Run
from testkit.scripted_endpoint import ScriptedEndpoint, stream


@pytest.fixture(autouse=True)
def _no_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("http_proxy", "https_proxy", "all_proxy"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.upper(), raising=False)


@pytest.fixture(autouse=True)
def _short_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client, "Patience", partial(Patience, first_wait_s=0.01))


@pytest.fixture
def endpoint() -> Iterator[ScriptedEndpoint]:
    with ScriptedEndpoint([stream("Hello", ", ", "world")]) as scripted:
        yield scripted


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Run, ScriptedEndpoint]]:
    """One program for tests that differ in what its endpoint answers alone."""
    with pytest.MonkeyPatch.context() as patch, ScriptedEndpoint() as scripted:
        patch.setenv(paths.HOME_VARIABLE, str(tmp_path_factory.mktemp("home")))
        patch.setattr(client, "Patience", partial(Patience, first_wait_s=0.01))
        recorder = Recorder()
        settings = Settings(model="box", remotes=(Endpoint("box", scripted.url, "m1"),))
        run = Run(wiring.open_service(settings, subscriber=recorder), recorder)
        yield run, scripted
        run.service.close()


@pytest.fixture
def begin() -> Iterator[Callable[..., Run]]:
    """Opens the program with an endpoint as its default model; options are the endpoint's."""
    runs: list[Run] = []

    def begin(scripted: ScriptedEndpoint | str, *others: Endpoint, **options) -> Run:
        url = scripted if isinstance(scripted, str) else scripted.url
        remote = Endpoint("box", url, **{"model": "m1", **options})
        recorder = Recorder()
        settings = Settings(model="box", remotes=(remote, *others))
        runs.append(Run(wiring.open_service(settings, subscriber=recorder), recorder))
        return runs[-1]

    yield begin
    for run in runs:
        run.service.close()
