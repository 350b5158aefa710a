"""Tokenizers built from GGUF metadata give the reference tokenizers' ids."""

from __future__ import annotations

import io
from functools import partial
from typing import TYPE_CHECKING, Any

import pytest
import sentencepiece

from localpaged.errors import BadModelFile, UnsupportedModel
from localpaged.models.open_model import open_model
from localpaged.models.pre_tokenizers import PRE_TOKENIZERS
from localpaged.prompt import PromptMessage
from testkit import gguf_files as make
from testkit.tiny_model import CHAT_TEMPLATE, build_tokenizer

if TYPE_CHECKING:
    from pathlib import Path

TEXTS = (
    "",
    " ",
    "  two  spaces\n\ttab ",
    "Hello world, it's 12345 o'clock; we'll see you'VE",
    "line\r\nbreak\n\n\nend\n",
    "Grüße aus Köln — 日本語 한국어 العربية",
    "👩\u200d👩\u200d👧 e\u0301 \ufb01 ½ ①",
    "def f(x):\n    return x**2  # 100%",
    "\x00\x7f\ufffd",
    "x" * 300,
)
SPM_TRAINING = (
    "the quick brown fox jumps over the lazy dog and the cat sat on the mat",
    "Hello world, hello again. what is the capital of france? it is paris.",
    "one two three four five  six",
)


def train_sentencepiece(**options: Any) -> sentencepiece.SentencePieceProcessor:
    model = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(SPM_TRAINING * 4),
        model_writer=model,
        model_type="bpe",
        vocab_size=320,
        byte_fallback=True,
        character_coverage=1.0,
        remove_extra_whitespaces=False,
        normalization_rule_name="identity",
        control_symbols=["<|end|>"],
        minloglevel=2,
        **options,
    )
    return sentencepiece.SentencePieceProcessor(model_proto=model.getvalue())


def add_sentencepiece(
    writer: Any,
    *,
    reference: sentencepiece.SentencePieceProcessor,
    adds_space: bool = True,
    byte_type: int = make.BYTE,
    chat_template: str | None = None,
    adds_bos: bool | None = None,
) -> None:
    ids = range(reference.get_piece_size())
    types = [make.NORMAL] * len(ids)
    for id_ in ids:
        if reference.is_control(id_):
            types[id_] = make.CONTROL
        elif reference.is_unknown(id_):
            types[id_] = 2
        elif reference.is_byte(id_):
            types[id_] = byte_type
    writer.add_tokenizer_model("llama")
    writer.add_token_list([reference.id_to_piece(id_) for id_ in ids])
    writer.add_token_scores([reference.get_score(id_) for id_ in ids])
    writer.add_token_types(types)
    writer.add_add_space_prefix(adds_space)
    writer.add_bos_token_id(1)
    writer.add_eos_token_id(2)
    writer.add_unk_token_id(0)
    if adds_bos is not None:
        writer.add_add_bos_token(adds_bos)
    if chat_template is not None:
        writer.add_chat_template(chat_template)


def with_tokenizer(tmp_path: Path, tokenizer: Any) -> Any:
    return open_model(make.save_tiny_gguf(tmp_path, "llama", tokenizer=tokenizer)).chat


@pytest.mark.parametrize("text", TEXTS)
def test_byte_level_ids_are_the_original_tokenizers(tmp_path: Path, text: str):
    chat = with_tokenizer(tmp_path, make.add_byte_level_tokenizer)

    assert list(chat.encode(text)) == build_tokenizer()(text)["input_ids"]
    assert chat.decode(chat.encode(text)) == text


@pytest.mark.parametrize("adds_space", [True, False])
@pytest.mark.parametrize("byte_type", [make.BYTE, make.NORMAL], ids=["BYTE", "NORMAL"])
@pytest.mark.parametrize("text", TEXTS)
def test_sentencepiece_ids_are_sentencepieces(
    tmp_path: Path, text: str, adds_space: bool, byte_type: int
):
    reference = train_sentencepiece(add_dummy_prefix=adds_space)
    chat = with_tokenizer(
        tmp_path,
        partial(add_sentencepiece, reference=reference, adds_space=adds_space, byte_type=byte_type),
    )

    ids = chat.encode(text)

    assert list(ids) == [1, *reference.encode(text)]
    assert chat.decode(ids) == text


def test_sentencepiece_pieces_become_exact_text(tmp_path: Path):
    reference = train_sentencepiece()
    chat = with_tokenizer(
        tmp_path, partial(add_sentencepiece, reference=reference, byte_type=make.NORMAL)
    )

    ids = reference.encode("Hello world,\n again")

    assert "<0x0A>" in [reference.id_to_piece(id_) for id_ in ids]
    assert chat.decode(ids) == "Hello world,\n again"
    assert b"".join(chat.token_bytes[id_] for id_ in ids) == b" Hello world,\n again"
    assert b"".join(chat.pieces(ids)) == b"Hello world,\n again"
    assert chat.strips_first_space


def test_control_tokens_are_silent_and_text_never_becomes_one(tmp_path: Path):
    reference = train_sentencepiece()
    chat = with_tokenizer(tmp_path, partial(add_sentencepiece, reference=reference))

    ids = chat.encode("<s> hi <|end|></s>")

    assert chat.token_bytes[1] == b""
    assert ids[0] == 1
    assert not {0, 1, 2, 3} & set(ids[1:])
    assert chat.decode(ids) == "<s> hi <|end|></s>"


@pytest.mark.parametrize("name", sorted(PRE_TOKENIZERS))
@pytest.mark.parametrize("text", TEXTS)
def test_pre_tokenizers_cut_as_transformers_does(name: str, text: str):
    from tokenizers import Regex, pre_tokenizers
    from transformers.integrations.gguf.gguf_tokenizer_mapping import GGUF_PRE_TOKENIZER_SPLITS

    steps: list[Any] = [pre_tokenizers.ByteLevel(add_prefix_space=False)]
    if name in GGUF_PRE_TOKENIZER_SPLITS:
        split = pre_tokenizers.Split(Regex(GGUF_PRE_TOKENIZER_SPLITS[name]), behavior="isolated")
        steps = [split, pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)]
    elif name in ("smollm", "starcoder", "refact"):
        steps.insert(0, pre_tokenizers.Digits(individual_digits=True))
    reference = pre_tokenizers.Sequence(steps)

    assert PRE_TOKENIZERS[name].steps().pre_tokenize_str(text) == reference.pre_tokenize_str(text)


def test_digits_are_cut_one_by_one_where_the_model_learned_them_so():
    cut = [word for word, _ in PRE_TOKENIZERS["smollm"].steps().pre_tokenize_str("a 2024")]

    assert cut == ["a", "Ġ", "2", "0", "2", "4"]


def test_an_unknown_pre_tokenizer_is_named(tmp_path: Path):
    tokenizer = partial(make.add_byte_level_tokenizer, pre="mystery-bpe")

    with pytest.raises(UnsupportedModel, match="pre-tokenizer mystery-bpe"):
        with_tokenizer(tmp_path, tokenizer)


def test_an_unknown_tokenizer_is_named(tmp_path: Path):
    def add_unigram(writer: Any) -> None:
        make.add_byte_level_tokenizer(writer)
        writer.kv_data[0]["tokenizer.ggml.model"].value = "t5"

    with pytest.raises(UnsupportedModel, match="tokenizer t5"):
        with_tokenizer(tmp_path, add_unigram)


def test_more_tokens_than_embeddings_are_refused(tmp_path: Path):
    with pytest.raises(BadModelFile, match="300 tokens for 64 embeddings"):
        open_model(make.save_tiny_gguf(tmp_path, "llama", vocab_size=64))


def change_metadata(key: str, change: Any) -> Any:
    def tokenizer(writer: Any) -> None:
        make.add_byte_level_tokenizer(writer)
        entry = writer.kv_data[0][f"tokenizer.ggml.{key}"]
        entry.value = change(entry.value)

    return tokenizer


@pytest.mark.parametrize(
    ("key", "change", "sentence"),
    [
        ("tokens", lambda tokens: [*tokens[:-1], tokens[-2]], "the same token twice"),
        ("token_type", lambda types: types[:-1], "no type for every token"),
        ("merges", lambda merges: [*merges, "abc"], "not two pieces"),
        ("merges", lambda merges: [*merges, "not inthere"], "merges that do not fit"),
        ("eos_token_id", lambda _: 100_000, "eos_token_id 100000"),
    ],
)
def test_lists_that_do_not_fit_together_are_refused(
    tmp_path: Path, key: str, change: Any, sentence: str
):
    with pytest.raises(BadModelFile, match=sentence):
        with_tokenizer(tmp_path, change_metadata(key, change))


def test_ids_beyond_the_tokenizer_are_padding(tmp_path: Path):
    chat = with_tokenizer(tmp_path, make.add_byte_level_tokenizer)

    assert chat.padding_ids == tuple(range(300, 320))
    assert len(chat.token_bytes) == 320
    assert set(chat.token_bytes[300:]) == {b""}


def test_tokens_marked_unused_are_padding(tmp_path: Path):
    def mark(types: list[int]) -> list[int]:
        return [*types[:-2], 5, 5]

    chat = with_tokenizer(tmp_path, change_metadata("token_type", mark))

    assert chat.padding_ids == tuple(range(298, 320))
    assert chat.token_bytes[299] == b""


def test_every_end_token_ends_an_answer(tmp_path: Path):
    chat = with_tokenizer(tmp_path, make.add_byte_level_tokenizer)

    assert chat.eos_ids == {0, 2}
    assert chat.bos_id == 0


def test_user_defined_words_of_the_template_are_controls_that_are_shown(tmp_path: Path):
    def tokenizer(writer: Any) -> None:
        make.add_byte_level_tokenizer(writer, chat_template=CHAT_TEMPLATE + "{# <think> #}")
        metadata = writer.kv_data[0]
        metadata["tokenizer.ggml.tokens"].value += ["<think>", "<tool>"]
        metadata["tokenizer.ggml.token_type"].value += [4, 4]

    chat = with_tokenizer(tmp_path, tokenizer)

    assert 300 not in chat.encode("<think>")
    assert chat.decode([300]) == "<think>"
    assert chat.encode("a<tool>b")[1] == 301


@pytest.mark.model
@pytest.mark.parametrize("text", TEXTS)
def test_the_default_models_ids_are_the_original_tokenizers(default_chat: Any, text: str):
    chat, reference = default_chat

    assert list(chat.encode(text)) == reference(text)["input_ids"]
    assert chat.decode(chat.encode(text)) == text


LLAMA2_TEMPLATE = (
    "{% for m in messages %}{% if m.role == 'user' %}"
    "{{ bos_token + '[INST] ' + m.content + ' [/INST]' }}"
    "{% else %}{{ ' ' + m.content + ' ' + eos_token }}{% endif %}{% endfor %}"
)


@pytest.mark.parametrize("template", [LLAMA2_TEMPLATE, CHAT_TEMPLATE], ids=["llama2", "chatml"])
def test_the_space_before_an_answers_first_word_is_written_once(tmp_path: Path, template: str):
    reference = train_sentencepiece()
    chat = with_tokenizer(
        tmp_path, partial(add_sentencepiece, reference=reference, chat_template=template)
    )
    ids = tuple(reference.encode("it is par") + reference.encode("is")[-1:])
    text = chat.decode(ids)
    assert chat.token_bytes[ids[0]].startswith(b" ")
    assert not text.startswith(" ")
    question = [PromptMessage("user", "what?")]
    answer = PromptMessage("assistant", text, ids)

    first = chat.render(question)
    second = chat.render([*question, answer, PromptMessage("user", "more")])

    assert second[: len(first) + len(ids)] == (*first, *ids)
    assert chat.render([*question, answer], continue_last=True) == (*first, *ids)
    plain = chat.render(
        [*question, PromptMessage("assistant", text), PromptMessage("user", "more")]
    )
    assert chat.spell(second).replace("\n it", "\nit") == chat.spell(plain)
