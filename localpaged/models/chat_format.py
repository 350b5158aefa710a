"""The prompt format of one model: messages in, token ids out, and ids back to text."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any

from localpaged.errors import ConfigError, UnsupportedModel
from localpaged.models.chat_template import ChatTemplate
from localpaged.models.control_text import ControlText, Marks
from localpaged.models.known_answers import KnownAnswer, find_kept, known_answer
from localpaged.models.reasoning import marks_of, with_visible_marks
from localpaged.models.system_role import in_first_turn, takes_system_role
from localpaged.models.text_tokenizer import TextTokenizer
from localpaged.models.tokenizer_data import ControlToken, TokenizerData
from localpaged.models.tool_prompt import (
    TEMPLATELESS_STYLE,
    each_text,
    style_of,
    template_message,
    with_each_text,
    with_visible_calls,
    written_out,
)
from localpaged.plain_text import visible
from localpaged.prompt import PromptMessage, ReasoningMarks, ToolStyle

ROLES = ("system", "user", "assistant", "tool")


class ChatFormat:
    """Tokenizer and chat template of one model; a `chat.model.ChatModel`. Thread-safe, no torch.

    A conversation starts with a begin token exactly when its template writes one; raw text
    starts with one when the tokenizer says so.
    """

    def __init__(
        self,
        data: TokenizerData,
        *,
        name: str,
        fingerprint: str,
        context_length: int,
        vocab_size: int,
    ) -> None:
        self._reasoning = marks_of(data)
        self._tool_style = style_of(data)
        data = with_visible_marks(data, self._reasoning)
        data = self._data = with_visible_calls(data, self._tool_style)
        self._name = name
        self._fingerprint = fingerprint
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
    def fingerprint(self) -> str:
        """Tells models apart whose token ids and KV must never be mixed."""
        return self._fingerprint

    @property
    def context_length(self) -> int:
        """Prompt and answer together, in tokens."""
        return self._context_length

    @property
    def has_chat_template(self) -> bool:
        """False for base models, which continue text but know no turns; `render` refuses."""
        return self._template is not None

    @property
    def reasoning(self) -> ReasoningMarks | None:
        """The marks around what the model thinks; None for a model that does not."""
        return self._reasoning

    @property
    def tool_style(self) -> ToolStyle:
        """How answers write that a tool is to be called."""
        return self._tool_style or TEMPLATELESS_STYLE

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

    @cached_property
    def _takes_system_role(self) -> bool:
        template = self._template
        return template is None or takes_system_role(template, dict(self._data.special_texts))

    @cached_property
    def _hidden_ids(self) -> frozenset[int]:
        hidden = (control.id for control in self._data.controls if control.is_hidden)
        return frozenset((*hidden, *self._data.eos_ids))

    @cached_property
    def _spellings(self) -> tuple[bytes, ...]:
        spellings = list(self.token_bytes)
        for control in self._data.controls:
            spellings[control.id] = control.text.encode()
        return tuple(spellings)

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

    def pieces(self, ids: Sequence[int]) -> Sequence[bytes]:
        """Return what each id of an answer adds to its text; b"" for control tokens."""
        known = self.token_bytes
        pieces = [known[id_] if 0 <= id_ < len(known) else b"" for id_ in ids]
        first = next((i for i, piece in enumerate(pieces) if piece), None)
        if self.strips_first_space and first is not None:
            pieces[first] = pieces[first].removeprefix(b" ")
        return pieces

    def spell(self, ids: Sequence[int]) -> str:
        """Return what a person reads in these ids: their text, control tokens by their names."""
        known = self._spellings
        spelled = b"".join(known[id_] for id_ in ids if 0 <= id_ < len(known))
        return spelled.decode("utf-8", "replace")

    def render(
        self,
        messages: Sequence[PromptMessage],
        *,
        continue_last: bool = False,
        tools: Sequence[Mapping[str, Any]] = (),
    ) -> tuple[int, ...]:
        """Return the prompt's token ids, ending where the answer begins.

        With `continue_last` the last message, an assistant's, is left open to be continued.
        Control tokens written in a text stay text, those of `tools`, their calls and results
        included, which a template that knows none gets as text. Messages that know their ids are
        written with these where the template keeps their text. A system prompt that the template
        would refuse or drop is said at the beginning of the first turn. Raises UnsupportedModel for
        a model without a chat template, ModelError for a conversation that its template refuses.
        """
        self._check(messages, continue_last=continue_last)
        if self._tool_style is None:
            messages, tools = written_out(messages, tools), ()
        if messages[0].role == "system" and not self._takes_system_role:
            messages = in_first_turn(messages)
        marks = self._control_text.marks(each_text(messages, tools))
        tools = with_each_text(tools, lambda text: self._wrapped(text, marks))
        answers = self._known_answers(messages)
        contents = [
            # an assistant's thinking tags must act: templates cut old thoughts out by them
            self._control_text.wrap(message.text, marks, only_hidden=message.role == "assistant")
            for message in messages
        ]
        rests = [
            self._control_text.wrap(answers[i].rest, marks, only_hidden=True)
            if i in answers
            else ""
            for i in range(len(messages))
        ]

        def render(contents: Sequence[str]) -> str:
            return self._rendered(
                messages, contents, marks, continue_last=continue_last, tools=tools
            )

        rendered, kept = find_kept(answers, contents, mark=marks[3], rests=rests, render=render)
        return self._encoded(rendered, marks, [answers[i] for i in kept])

    def _wrapped(self, text: str, marks: Marks) -> str:
        return self._control_text.wrap(text, marks, only_hidden=False)

    def _known_answers(self, messages: Sequence[PromptMessage]) -> Mapping[int, KnownAnswer]:
        found = {
            i: known_answer(
                message.token_ids,
                message.text,
                token_bytes=self.token_bytes,
                hidden_ids=self._hidden_ids,
                strips_first_space=self.strips_first_space,
            )
            for i, message in enumerate(messages)
            if message.role == "assistant" and message.token_ids
        }
        return {i: answer for i, answer in found.items() if answer is not None}

    def _encoded(
        self, rendered: str, marks: Marks, answers: Sequence[KnownAnswer]
    ) -> tuple[int, ...]:
        ids: list[int] = []
        coming = iter(answers)
        is_first = True
        for part in self._control_text.split(rendered, marks):
            if isinstance(part, ControlToken):
                ids.append(part.id)
            else:
                *before, last = part.split(marks[3])
                is_inside = False
                for run in before:
                    answer = next(coming)
                    # the space before the answer is the one its first token begins with
                    run = run.removesuffix(" ") if answer.has_first_space else run
                    ids += self._tokenizer.encode(run, is_first=is_first, is_inside=is_inside)
                    ids += answer.ids
                    is_inside = True
                ids += self._tokenizer.encode(last, is_first=is_first, is_inside=is_inside)
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
        self,
        messages: Sequence[PromptMessage],
        contents: Sequence[str],
        marks: Marks,
        *,
        continue_last: bool,
        tools: Sequence[Mapping[str, Any]],
    ) -> str:
        if self._template is None:
            raise UnsupportedModel(
                f"{visible(self._name)} has no chat template: it is a base model.",
                hint="Choose an instruct or chat model. `localpaged serve` lets a base model go on "
                "with texts that are sent to /v1/completions.",
            )

        def wrapped(text: str) -> str:
            return self._wrapped(text, marks)

        if continue_last:
            contents = [*contents[:-1], contents[-1] + marks[2] + " "]
        rendered = self._template.render(
            [
                with_each_text(template_message(message, content), wrapped, but="content")
                for message, content in zip(messages, contents, strict=True)
            ],
            special_texts=self._data.special_texts,
            add_generation_prompt=not continue_last,
            tools=tools,
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
