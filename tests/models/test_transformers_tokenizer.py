"""Tokenizers out of transformers folders give transformers' ids without transformers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from localpaged.errors import BadModelFile
from localpaged.models.open_model import open_model
from localpaged.prompt import PromptMessage
from testkit.tiny_model import build_tokenizer, save_tiny_model

if TYPE_CHECKING:
    from pathlib import Path

MISTRAL_TEMPLATE = (
    "{{ bos_token }}{% for m in messages %}{% if m.role == 'user' %}"
    "{{ '[INST] ' + m.content + ' [/INST]' }}{% else %}{{ ' ' + m.content + eos_token }}"
    "{% endif %}{% endfor %}"
)
ZEPHYR_TEMPLATE = (
    "{% for m in messages %}{{ '<|' + m.role + '|>\n' + m.content + eos_token + '\n' }}"
    "{% endfor %}{% if add_generation_prompt %}{{ '<|assistant|>\n' }}{% endif %}"
)
CONVERSATION = (
    ("user", "Hello  world"),
    ("assistant", " it is\nParis."),
    ("user", "  and 日本? 😀"),
)
TEXTS = ("", " ", "Hello world", "  two  spaces\n\ttab ", "日本 é 😀")


def sentencepiece_style(*, legacy: bool, chat_template: str = MISTRAL_TEMPLATE) -> Any:
    """Return a Llama tokenizer with byte fallback, in its older or newer spelling."""
    from tokenizers import normalizers
    from transformers import LlamaTokenizer, PreTrainedTokenizerFast
    from transformers.tokenization_utils_base import generate_merges

    pieces = ["<unk>", "<s>", "</s>", *(f"<0x{byte:02X}>" for byte in range(256))]
    words = ["▁He", "llo", "▁wo", "rld", "▁it", "▁is", "Par", "is", "▁▁", "▁[", "INST"]
    stems = ["ll", "He", "wo", "rl", "it", "Pa", "IN", "INS"]
    pieces += [*stems, *words, *sorted({char for word in words for char in word})]
    vocab = {piece: id_ for id_, piece in enumerate(pieces)}
    tokenizer = LlamaTokenizer(
        vocab=vocab, merges=generate_merges(vocab), chat_template=chat_template
    )
    if not legacy:
        return tokenizer
    backend = tokenizer.backend_tokenizer
    backend.pre_tokenizer = None
    backend.normalizer = normalizers.Sequence(
        [normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")]
    )
    return PreTrainedTokenizerFast(
        tokenizer_object=backend,
        bos_token="<s>",
        eos_token="</s>",
        unk_token="<unk>",
        chat_template=chat_template,
    )


def chat_of(folder: Path, tokenizer: Any) -> Any:
    save_tiny_model(folder, "llama", bos_token_id=1, eos_token_id=2)
    tokenizer.save_pretrained(folder)
    return open_model(folder).chat


@pytest.mark.parametrize("template", [MISTRAL_TEMPLATE, ZEPHYR_TEMPLATE], ids=["INST", "zephyr"])
@pytest.mark.parametrize("legacy", [True, False])
@pytest.mark.parametrize("turns", [CONVERSATION[:1], CONVERSATION])
def test_prompts_of_sentencepiece_style_are_those_of_transformers(
    tmp_path: Path, turns: Any, legacy: bool, template: str
):
    tokenizer = sentencepiece_style(legacy=legacy, chat_template=template)
    chat = chat_of(tmp_path, tokenizer)

    ids = chat.render([PromptMessage(role, text) for role, text in turns])

    assert list(ids) == tokenizer.apply_chat_template(
        [{"role": role, "content": text} for role, text in turns],
        add_generation_prompt=True,
        return_dict=False,
    )


@pytest.mark.parametrize("legacy", [True, False])
@pytest.mark.parametrize("text", TEXTS)
def test_texts_of_sentencepiece_style_are_encoded_as_transformers_does(
    tmp_path: Path, text: str, legacy: bool
):
    tokenizer = sentencepiece_style(legacy=legacy)
    chat = chat_of(tmp_path, tokenizer)

    ids = chat.encode(text)

    assert list(ids) == tokenizer(text)["input_ids"]
    assert chat.decode(ids) == tokenizer.decode(ids, skip_special_tokens=True)


@pytest.mark.parametrize("legacy", [True, False])
def test_a_marker_in_a_text_costs_no_space(tmp_path: Path, legacy: bool):
    chat = chat_of(tmp_path, sentencepiece_style(legacy=legacy))

    ids = chat.render([PromptMessage("user", "a</s>b<s>c")])

    assert (ids.count(1), ids.count(2)) == (1, 0)
    assert "a</s>b<s>c" in chat.decode(ids)


def test_byte_level_texts_are_encoded_as_transformers_does(tmp_path: Path):
    tokenizer = build_tokenizer()
    chat = chat_of(tmp_path, tokenizer)

    for text in ("", " ", "Hello  world", "日本 é 😀 1234"):
        assert list(chat.encode(text)) == tokenizer(text)["input_ids"]
        assert chat.decode(chat.encode(text)) == text


def test_added_words_keep_their_ids_whatever_is_taken_out(tmp_path: Path):
    from tokenizers import AddedToken

    tokenizer = build_tokenizer(chat_template="{{ '<think>' }}{{ messages[0].content }}")
    tokenizer.add_tokens([AddedToken("<ctl>", special=True), AddedToken("<tool>")])
    tokenizer.add_tokens([AddedToken("<think>"), AddedToken("<ctl2>", special=True)])
    chat = chat_of(tmp_path, tokenizer)

    ids = chat.render([PromptMessage("user", "<tool><think><ctl2><ctl>")])

    assert ids[:2] == (302, 301)
    assert not {300, 302, 303} & set(ids[2:])
    assert [chat.token_bytes[id_] for id_ in (300, 301, 302, 303)] == [
        b"", b"<tool>", b"<think>", b"",
    ]  # fmt: skip
    assert chat.decode(ids) == "<think><tool><think><ctl2><ctl>"


def test_tokens_that_swallow_white_space_do_so_in_templates(tmp_path: Path):
    from tokenizers import AddedToken

    template = "{{ messages[0].content }} \n<|end|> \n x"
    tokenizer = build_tokenizer(chat_template=template)
    tokenizer.add_special_tokens(
        {"additional_special_tokens": [AddedToken("<|end|>", lstrip=True, rstrip=True)]}
    )
    chat = chat_of(tmp_path, tokenizer)

    ids = chat.render([PromptMessage("user", "a")])

    assert list(ids) == tokenizer.apply_chat_template(
        [{"role": "user", "content": "a"}], return_dict=False
    )
    assert chat.decode(ids) == "ax"


def test_every_named_end_of_the_configs_ends_an_answer(tmp_path: Path):
    folder = save_tiny_model(tmp_path / "tiny", "llama", eos_token_id=5)
    (folder / "generation_config.json").write_text('{"eos_token_id": [7, 9]}')

    assert open_model(folder).chat.eos_ids == {2, 5, 7, 9}


def test_a_tokenizer_with_more_ids_than_embeddings_is_refused(tmp_path: Path):
    folder = save_tiny_model(tmp_path / "tiny", "llama", vocab_size=100)

    with pytest.raises(BadModelFile, match="only 100 embeddings"):
        open_model(folder)


def test_a_folder_without_a_tokenizer_is_told(tmp_path: Path):
    folder = save_tiny_model(tmp_path / "tiny", "llama")
    for path in folder.glob("tokenizer*"):
        path.unlink()

    with pytest.raises(BadModelFile, match="tokenizer cannot be read"):
        open_model(folder)


def test_opening_a_folder_prints_nothing(tmp_path: Path, capfd: pytest.CaptureFixture[str]):
    folder = save_tiny_model(tmp_path / "tiny", "llama")
    capfd.readouterr()

    open_model(folder)

    assert capfd.readouterr() == ("", "")
