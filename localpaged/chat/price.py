"""What a text costs before it is sent: its tokens, as the model that will read it cuts them."""

from __future__ import annotations

import threading
from concurrent.futures import Future

from localpaged.chat.endless import refuse_endless
from localpaged.prompt import ChatModel, PromptMessage


def counted(model: Future[ChatModel], text: str) -> Future[int]:
    """Return how many tokens `text` adds to a message, counted on a thread of its own.

    It waits for a model that is still being opened; what keeps the model from being opened or from
    reading chats is what the future raises, and PromptEndless for what its context never holds.
    """
    tokens: Future[int] = Future()
    model.add_done_callback(
        lambda opened: threading.Thread(
            target=_count, args=(opened, text, tokens), name="price", daemon=True
        ).start()
    )
    return tokens


def _count(model: Future[ChatModel], text: str, tokens: Future[int]) -> None:
    try:
        opened = model.result()
        refuse_endless([PromptMessage("user", text)], opened)
        empty = len(opened.render([PromptMessage("user", "")]))
        whole = len(opened.render([PromptMessage("user", text)]))
    except BaseException as error:  # a panic in the tokenizer is no Exception
        tokens.set_exception(error)
    else:
        tokens.set_result(whole - empty)
