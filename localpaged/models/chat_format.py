"""The prompt format of one model: messages in, token ids out, and ids back to text."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property

from localpaged.errors import ConfigError, UnsupportedModel
from localpaged.models.chat_template import ChatTemplate
from localpaged.models.control_text import ControlText
from localpaged.models.text_tokenizer import TextTokenizer
from localpaged.models.tokenizer_data import ControlToken, TokenizerData
from localpaged.plain_text import visible
from localpaged.prompt import PromptMessage

ROLES = ("system", "user", "assistant")


class ChatFormat:
    """Tokenizer and chat template of one model; a `chat.model.ChatModel`. Thread-safe, no torch.

    A conversation starts with a begin token exactly when its template writes one; raw text
    starts with one when the tokenizer says so.
    """

    def __init__(
        self, data: TokenizerData, *, name: str, context_length: int, vocab_size: int
    ) -> None:
        self._data = data
        self._name = name
        self._context_length = context_length
        self._vocab_size = vocab_size
        self._tokenizer = TextTokenizer(data)
        self._template = (
            ChatTemplate(data.chat_template, model_name=name) if data.chat_template else None
        )
        self._control_text = ControlText(data.controls)

    @property
    def name(self) -> str:
        """The name the model is listed under."""
        return self._name

    @property
    def context_length(self) -> int:
        """Prompt and answer together, in tokens."""
        return self._context_length

    @property
    def has_chat_template(self) -> bool:
        """False for base models, which continue text but know no turns; `render` refuses."""
        return self._template is not None

    @property
    def bos_id(self) -> int | None:
        """The begin token."""
        return self._data.bos_id

    @property
    def eos_ids(self) -> frozenset[int]:
        """The tokens that end an answer."""
        return frozenset(self._data.eos_ids)

    @property
    def strips_first_space(self) -> bool:
        """Whether the tokenizer puts a space before a text, so that one leading space of an
        answer that does not continue a text is not part of it."""
        return self._data.adds_space

    @cached_property
    def token_bytes(self) -> tuple[bytes, ...]:
        """What each id of the model's vocabulary adds to an answer; b"" for control tokens."""
        known = self._tokenizer.token_bytes
        return (*known, *[b""] * (self._vocab_size - len(known)))

    @cached_property
    def padding_ids(self) -> tuple[int, ...]:
        """The ids the tokenizer does not know: rows that only round the vocabulary up."""
        known = self._tokenizer.known_ids
        return tuple(id_ for id_ in range(self._vocab_size) if id_ not in known)

    def encode(self, text: str) -> tuple[int, ...]:
        """Return the ids of a raw text, with a begin token if the tokenizer adds one.

        Control tokens written in the text stay text.
        """
        begin = [self._data.bos_id] if self._data.adds_bos and self._data.bos_id is not None else []
        return (*begin, *self._tokenizer.encode(text))

    def decode(self, ids: Sequence[int]) -> str:
        """Return the text of a whole answer; bytes that are no text become replacement marks."""
        text = b"".join(self.token_bytes[id_] for id_ in ids).decode("utf-8", "replace")
        return text.removeprefix(" ") if self.strips_first_space else text

    def render(
        self, messages: Sequence[PromptMessage], *, continue_last: bool = False
    ) -> tuple[int, ...]:
        """Return the prompt's token ids, ending where the answer begins.

        With `continue_last` the last message, an assistant's, is left open to be continued.
        Control tokens written in a message's text stay text. Raises UnsupportedModel for a model
        without a chat template and ModelError for a conversation that its template refuses.
        """
        self._check(messages, continue_last=continue_last)
        marks = self._control_text.marks(message.text for message in messages)
        rendered = self._rendered(messages, marks, continue_last=continue_last)
        ids: list[int] = []
        is_first = True
        for part in self._control_text.split(rendered, marks):
            if isinstance(part, ControlToken):
                ids.append(part.id)
            else:
                ids += self._tokenizer.encode(part, is_first=is_first)
            is_first = False
        return tuple(ids)

    def _check(self, messages: Sequence[PromptMessage], *, continue_last: bool) -> None:
        if not messages:
            raise ConfigError("There is no message to answer.", hint="Write a message first.")
        for message in messages:
            if message.role not in ROLES:
                raise ConfigError(
                    f"{visible(message.role)!r} is not a role; {', '.join(ROLES)} are.",
                    hint="Give every message one of these roles.",
                )
        if continue_last and messages[-1].role != "assistant":
            raise ConfigError(
                f"The last message is the {messages[-1].role}'s; only an answer can be continued.",
                hint="Send the message to have it answered.",
            )

    def _rendered(
        self, messages: Sequence[PromptMessage], marks: tuple[str, str, str], *, continue_last: bool
    ) -> str:
        if self._template is None:
            raise UnsupportedModel(
                f"{visible(self._name)} has no chat template: it is a base model.",
                hint="Choose an instruct or chat model.",
            )
        contents = [
            # an assistant's thinking tags must act: templates cut old thoughts out by them
            self._control_text.wrap(message.text, marks, only_hidden=message.role == "assistant")
            for message in messages
        ]
        if continue_last:
            contents[-1] += marks[2] + " "
        rendered = self._template.render(
            [
                {"role": message.role, "content": content}
                for message, content in zip(messages, contents, strict=True)
            ],
            special_texts=self._data.special_texts,
            add_generation_prompt=not continue_last,
        )
        return self._cut_open(rendered, marks[2]) if continue_last else rendered

    def _cut_open(self, rendered: str, mark: str) -> str:
        """Return what is before the end of the last message's text."""
        before, found, after = rendered.rpartition(mark)
        if not found:
            raise UnsupportedModel(
                f"The chat template of {visible(self._name)} drops the answer to be continued.",
                hint="Ask again instead of continuing.",
            )
        # a template that strips white space has stripped the space after the mark, but could
        # not strip what is before it
        return before if after.startswith(" ") else before.rstrip()
