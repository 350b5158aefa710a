"""What marks reasoning is read from the model: its template, else its tokens."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from localpaged.chat.prompting import prompt_ids
from localpaged.chat.thought import reader_of
from localpaged.models.chat_format import ChatFormat
from localpaged.models.open_model import open_model
from localpaged.models.reasoning import marks_of, with_visible_marks
from localpaged.models.tokenizer_data import ControlToken, TokenizerData
from localpaged.prompt import PromptMessage, ReasoningMarks
from localpaged.store.rows import Turn
from localpaged.store.token_ids import pack
from testkit import gguf_files as make
from testkit.builders import make_turn


def data(template: str | None, *controls: ControlToken) -> TokenizerData:
    return TokenizerData("{}", True, controls, (), None, False, False, (), template, {})


@pytest.mark.parametrize(
    ("template", "begin"),
    [
        ("{% if '</think>' in content %}…{% endif %}", "<think>"),
        ("{{ '<|assistant|><think>\\n' }}{{ '</think>' }}", "<think>"),
        ("[THINK]…[/THINK]", "[THINK]"),
        ("{{ messages[0].content }}", None),
        (None, None),
    ],
)
def test_a_template_that_cuts_at_marks_tells_them(template, begin):
    marks = marks_of(data(template))
    assert (None if marks is None else marks.begin) == begin


def test_tokens_of_their_own_tell_as_well():
    both = (ControlToken(7, "<think>", False), ControlToken(8, "</think>", False))
    assert marks_of(data("plain", *both)) is not None
    assert marks_of(data("plain", *both[:1])) is None


def test_hidden_marks_get_a_text_and_other_tokens_stay_hidden():
    known = data("[/THINK]", ControlToken(7, "[THINK]"), ControlToken(8, "<s>"))
    shown = with_visible_marks(known, marks_of(known))
    assert [control.is_hidden for control in shown.controls] == [False, True]
    assert with_visible_marks(known, None) is known


QWEN_LIKE = (
    "{% for m in messages %}{% set text = m.content %}"
    "{% if m.role == 'assistant' and '</think>' in text and not loop.last %}"
    "{% set text = text.split('</think>')[-1].lstrip('\n') %}{% endif %}"
    "{{ '<|im_start|>' + m.role + '\n' + text + '<|im_end|>\n' }}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}OPENING{% endif %}"
)


def thinking_chat(folder: Path, *, opening: str, kind: int = 4) -> ChatFormat:
    """A model whose marks are tokens of their own; `kind` 3 hides their text."""

    def tokenizer(writer: Any) -> None:
        make.add_byte_level_tokenizer(writer, chat_template=QWEN_LIKE.replace("OPENING", opening))
        metadata = writer.kv_data[0]
        metadata["tokenizer.ggml.tokens"].value += ["<think>", "</think>"]
        metadata["tokenizer.ggml.token_type"].value += [kind, kind]

    return open_model(make.save_tiny_gguf(folder, "llama", tokenizer=tokenizer)).chat


def turn(**columns: Any) -> Turn:
    return replace(make_turn(), model="tiny", **columns)


@pytest.mark.parametrize(("opening", "kind"), [("", 4), ("{{ '<think>\n' }}", 3)])
def test_the_models_own_prompt_tells_whether_a_text_begins_inside_a_thought(
    tmp_path, opening, kind
):
    chat = thinking_chat(tmp_path, opening=opening, kind=kind)
    assert chat.reasoning == ReasoningMarks("<think>", "</think>")
    question = chat.render([PromptMessage("user", "why <think>?")])
    reader = reader_of(chat, question, turn(), now_s=0.0)
    reader.take("plan</think>so", token_count=3, now_s=1.0)
    reader.finish(now_s=1.0)
    assert (reader.thought is not None) == bool(opening)
    if opening:
        # a mark that was hidden has a text, so that it can be seen where the thought ends
        assert chat.pieces((question[-2],)) == [b"<think>"]


def test_a_thought_that_was_cut_goes_on_as_the_model_wrote_it(tmp_path):
    chat = thinking_chat(tmp_path, opening="{{ '<think>\n' }}")
    question = [PromptMessage("user", "why?")]
    ids = chat.encode("because of")
    begun = turn(partial_text="because of", token_ids=pack(ids), model_fingerprint=chat.fingerprint)
    begun = replace(begun, model=chat.name)
    assert prompt_ids(chat, question, begun) == ((*chat.render(question), *ids), len(ids))
