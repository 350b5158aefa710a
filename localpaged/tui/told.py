"""What chats tell, by name: the module behind it is imported with the first event, not before.

The first picture has no answers, and does not wait for what describes them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from localpaged.chat.events import ChatEvent as ChatEvent
    from localpaged.chat.events import ModelFailed as ModelFailed
    from localpaged.chat.events import ModelLoading as ModelLoading
    from localpaged.chat.events import ModelReady as ModelReady
    from localpaged.chat.events import ModelUnloaded as ModelUnloaded
    from localpaged.chat.events import SavingFailed as SavingFailed
    from localpaged.chat.events import SavingRecovered as SavingRecovered
    from localpaged.chat.events import TurnCacheReport as TurnCacheReport
    from localpaged.chat.events import TurnEnded as TurnEnded
    from localpaged.chat.events import TurnModelMissing as TurnModelMissing
    from localpaged.chat.events import TurnPrefill as TurnPrefill
    from localpaged.chat.events import TurnText as TurnText
    from localpaged.engine.events import Usage as Usage
else:

    def __getattr__(name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        from localpaged.chat import events
        from localpaged.engine import events as of_engine

        value = getattr(events, name, None) or getattr(of_engine, name)
        globals()[name] = value  # asked once
        return value
