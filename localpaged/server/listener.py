"""HttpServer: the API on a socket, with a loop of its own, over an engine that others use, too."""

from __future__ import annotations

import asyncio
import contextlib
import signal
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future

import uvicorn

from localpaged.chat.models import ModelShelf
from localpaged.engine.params import SamplingParams
from localpaged.engine.port import EnginePort
from localpaged.prompt import ChatModel
from localpaged.server.api import Api
from localpaged.server.connections import listening, protocol_with
from localpaged.server.desk import Desk
from localpaged.server.meters import Meters
from localpaged.server.offer import Offer
from localpaged.server.settings import ServerSettings

TICK_S = 1.0  # how often the date of responses is made anew
KEEP_ALIVE_S = 75
MAX_HEADER_BYTES = 32 << 10
ENDING_S = 5.0
"""What open answers get to say that they were ended, before their connections are cut."""


class HttpServer:
    """Listens from the moment it is made; answers once it has an engine and runs.

    Owns its socket and its loop. `stop` may be called from any thread and from signal handlers;
    the rest belongs to the thread that makes it.
    """

    def __init__(self, settings: ServerSettings, sampling: SamplingParams) -> None:
        """Take the port. `sampling` is what requests leave open. Raises ConfigError."""
        self._settings = settings
        self._sampling = sampling
        self._socket = listening(settings.host, settings.port)
        self._loop = asyncio.new_event_loop()
        self._server: _Server | None = None
        self._desk: Desk | None = None
        self._api: Api | None = None
        self._thread: threading.Thread | None = None
        self._num_stops = 0
        self.offer: Offer | None = None

    @property
    def port(self) -> int:
        """The port that was taken."""
        port: int = self._socket.getsockname()[1]
        return port

    @property
    def address(self) -> str:
        """Where it listens, as HOST:PORT."""
        host = self._settings.host
        return f"[{host}]:{self.port}" if ":" in host else f"{host}:{self.port}"

    @property
    def short_address(self) -> str:
        """The same where only the port is worth telling: :PORT on this machine alone."""
        return f":{self.port}" if self._settings.is_loopback else self.address

    def attach(self, engine: EnginePort, default: Future[ChatModel], shelf: ModelShelf) -> None:
        """Take an engine that has not begun to load, and how its models are opened."""
        offer = self.offer = Offer(default, shelf)
        desk = self._desk = Desk(engine, self._loop)
        engine.add_listener(offer.on_events)
        engine.add_listener(desk.on_events)
        meters = Meters(
            lambda: [(each.name, engine.snapshot(each.engine_name)) for each in offer.served()]
        )
        self._api = Api(
            settings=self._settings,
            sampling=self._sampling,
            desk=desk,
            offer=offer,
            meters=meters,
        )
        self._server = _Server(self._config(self._api))

    def start(self) -> None:
        """Answer on a thread of its own, until `close`."""
        self._thread = threading.Thread(target=self._run, name="http", daemon=True)
        self._thread.start()

    def run(self) -> None:
        """Answer on this thread until a signal or `stop`; the main thread alone gets signals."""
        with _stopping_on_signals(self.stop):
            self._run()

    def stop(self) -> None:
        """Take no more requests; open answers have `grace_s`, none after a second call."""
        self._num_stops += 1
        with contextlib.suppress(RuntimeError):  # the loop has ended
            self._loop.call_soon_threadsafe(self._stop, self._num_stops > 1)

    def close(self) -> None:
        """End at once and give the port back. A second call does nothing."""
        if self._thread is not None:
            self.stop()
            self.stop()
            self._thread.join()
            self._thread = None
        self._socket.close()
        if not self._loop.is_closed():
            self._loop.close()

    def _run(self) -> None:
        assert self._server is not None and self._api is not None, "nothing to answer with"
        try:
            self._loop.run_until_complete(self._server.serve([self._socket]))
        finally:
            self._api.close()
            self._loop.run_until_complete(self._loop.shutdown_asyncgens())
            self._loop.close()

    def _stop(self, is_at_once: bool) -> None:
        assert self._server is not None and self._desk is not None
        self._server.stop()
        if is_at_once:
            self._desk.cancel_all()
        else:
            self._loop.call_later(self._settings.grace_s, self._desk.cancel_all)

    def _config(self, api: Api) -> uvicorn.Config:
        settings = self._settings
        return uvicorn.Config(
            api.app(),
            http=protocol_with(read_s=settings.read_s, stall_s=settings.stall_s),
            ws="none",
            lifespan="off",
            log_config=None,
            log_level="error",
            access_log=False,
            server_header=False,
            proxy_headers=False,
            timeout_keep_alive=KEEP_ALIVE_S,
            timeout_graceful_shutdown=int(settings.grace_s + ENDING_S) + 1,
            h11_max_incomplete_event_size=MAX_HEADER_BYTES,
        )


class _Server(uvicorn.Server):
    """uvicorn's, without its signals, and asleep between its ticks."""

    def __init__(self, config: uvicorn.Config) -> None:
        super().__init__(config)
        self._stopped = asyncio.Event()

    def stop(self) -> None:
        """End after what is open. Loop's thread."""
        self.should_exit = True
        self._stopped.set()

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Leave signals to whoever runs the server."""
        yield

    async def main_loop(self) -> None:
        """Wait for the end."""
        while not await self.on_tick(0):
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._stopped.wait(), TICK_S)


@contextlib.contextmanager
def _stopping_on_signals(stop: Callable[[], None]) -> Iterator[None]:
    kept = {}
    if threading.current_thread() is threading.main_thread():
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            handler = signal.getsignal(number)
            if handler is not signal.SIG_IGN:
                kept[number] = handler
                signal.signal(number, lambda number, frame: stop())
    try:
        yield
    finally:
        for number, handler in kept.items():
            signal.signal(number, handler)
