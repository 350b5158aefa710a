"""Builds a tokenizer from a GGUF file's metadata."""

from __future__ import annotations

from collections.abc import Sequence

from tokenizers import AddedToken, Tokenizer, decoders, models, normalizers

from localpaged.errors import BadModelFile, UnsupportedModel
from localpaged.models.gguf_file import GgufHeader
from localpaged.models.pre_tokenizers import PRE_TOKENIZERS, PreTokenizer
from localpaged.models.sentencepiece_merges import sentencepiece_merges
from localpaged.models.tokenizer_data import CONTROL_PREFIX, ControlToken, TokenizerData
from localpaged.plain_text import visible

NORMAL, UNKNOWN, CONTROL, USER_DEFINED, UNUSED, BYTE = range(1, 7)

# Control tokens of these texts end an answer; the metadata names only one of a model's.
END_TEXTS = frozenset(
    (
        "<|im_end|>",
        "<|endoftext|>",
        "<|end_of_text|>",
        "<|eot_id|>",
        "<|eom_id|>",
        "<|end|>",
        "<end_of_turn>",
        "<|end_of_turn|>",
    )
)

_KEY = "tokenizer.ggml."
_SPECIALS = {
    "bos_token": "bos_token_id",
    "eos_token": "eos_token_id",
    "unk_token": "unknown_token_id",
    "pad_token": "padding_token_id",
}
_END_KEYS = ("eos_token_id", "eot_token_id", "eom_token_id")
_SPACE = "\u2581"


def gguf_tokenizer_data(header: GgufHeader, *, vocab_size: int) -> TokenizerData:
    """Return the tokenizer that `header` describes for a model of `vocab_size` ids.

    Raises UnsupportedModel, naming it, for a kind of tokenizer or pre-tokenizer that is not
    known exactly, and BadModelFile for lists that do not fit together.
    """
    return _Builder(header, vocab_size).build()


class _Builder:
    """Reads the tokenizer of one header. Used once."""

    def __init__(self, header: GgufHeader, vocab_size: int) -> None:
        self._metadata = header.metadata
        self._shown = visible(str(header.path))
        self._kind = self._metadata.get(_KEY + "model")
        template = self._metadata.get("tokenizer.chat_template")
        self._template = template if isinstance(template, str) and template else None
        self._tokens = self._texts("tokens")
        if not 0 < len(self._tokens) <= vocab_size:
            raise self._bad(f"{len(self._tokens):,} tokens for {vocab_size:,} embeddings")
        self._types = self._token_types()
        self._controls = {control.id: control for control in self._find_controls()}

    def build(self) -> TokenizerData:
        """Return everything as plain data."""
        adds_space = False
        if self._kind == "gpt2":
            pre = self._pre_tokenizer()
            tokenizer, adds_bos = self._byte_level(pre), pre.adds_bos
        elif self._kind == "llama":
            adds_space = self._flag("add_space_prefix", default=True)
            tokenizer, adds_bos = self._sentencepiece(adds_space=adds_space), True
        else:
            raise UnsupportedModel(
                f"{self._shown}: the tokenizer {visible(str(self._kind))} is not supported.",
                hint="GGUF files with a gpt2 (BPE) or llama (SentencePiece) tokenizer run.",
            )
        tokenizer.add_tokens(
            [
                AddedToken(self._tokens[id_], normalized=False)
                for id_ in self._ids_of_type(USER_DEFINED)
                if id_ not in self._controls
            ]
        )
        return TokenizerData(
            text_tokenizer=tokenizer.to_str(),
            is_byte_level=self._kind == "gpt2",
            controls=tuple(self._controls.values()),
            unused_ids=tuple(self._ids_of_type(UNUSED)),
            bos_id=self._id("bos_token_id"),
            adds_bos=self._flag("add_bos_token", default=adds_bos),
            adds_space=adds_space,
            eos_ids=self._eos_ids(),
            chat_template=self._template,
            special_texts={
                name: self._tokens[id_]
                for name, key in _SPECIALS.items()
                if (id_ := self._id(key)) is not None
            },
        )

    def _byte_level(self, pre: PreTokenizer) -> Tokenizer:
        merges = [tuple(merge.split(" ")) for merge in self._texts("merges")]
        if any(len(merge) != 2 for merge in merges):
            raise self._bad("a merge that is not two pieces")
        model = self._model(merges, ignore_merges=pre.ignores_merges)
        tokenizer = Tokenizer(model)
        tokenizer.pre_tokenizer = pre.steps()
        if (normalizer := pre.normalizer()) is not None:
            tokenizer.normalizer = normalizer
        tokenizer.decoder = decoders.ByteLevel()
        return tokenizer

    def _sentencepiece(self, *, adds_space: bool) -> Tokenizer:
        scores = self._metadata.get(_KEY + "scores")
        if not isinstance(scores, Sequence) or len(scores) != len(self._tokens):
            raise self._bad("no score for every token")
        pieces = {
            token: id_
            for id_, token in enumerate(self._tokens)
            if self._types[id_] == NORMAL and id_ not in self._controls
        }
        merges = sentencepiece_merges(pieces, [float(score) for score in scores])  # type: ignore[arg-type]
        unknown = self._id("unknown_token_id")
        model = self._model(merges, byte_fallback=True, fuse_unk=True, unknown_id=unknown)
        tokenizer = Tokenizer(model)
        spaces: list[normalizers.Normalizer] = [normalizers.Replace(" ", _SPACE)]
        if adds_space:
            spaces.insert(0, normalizers.Prepend(_SPACE))
        tokenizer.normalizer = normalizers.Sequence(spaces)
        return tokenizer

    def _model(
        self, merges: Sequence[tuple[str, ...]], *, unknown_id: int | None = None, **options: bool
    ) -> models.BPE:
        vocab = {token: id_ for id_, token in enumerate(self._tokens)}
        if len(vocab) != len(self._tokens):
            raise self._bad("the same token twice")
        for control in self._controls.values():
            vocab[CONTROL_PREFIX + control.text] = vocab.pop(control.text)
        unknown = None
        if unknown_id is not None:
            text = self._tokens[unknown_id]
            unknown = CONTROL_PREFIX + text if unknown_id in self._controls else text
        try:
            return models.BPE(vocab, merges, unk_token=unknown, **options)  # type: ignore[arg-type]
        except Exception as error:  # the library raises nothing more specific
            raise self._bad(f"merges that do not fit its tokens ({error})") from error

    def _find_controls(self) -> list[ControlToken]:
        named = {self._id(key) for key in (*_END_KEYS, "bos_token_id")}
        controls = []
        for id_, kind in enumerate(self._types):
            if kind == NORMAL and id_ not in named:
                continue
            text = self._tokens[id_]
            is_hidden = kind in (CONTROL, UNKNOWN) or id_ in named or text in END_TEXTS
            # the template's own words, as <think>, must not be forged either, but are shown
            is_written = kind == USER_DEFINED and not text.isspace() and text in self._written()
            if text and (is_hidden or is_written):
                controls.append(ControlToken(id_, text, is_hidden))
        return controls

    def _written(self) -> str:
        return self._template or ""

    def _eos_ids(self) -> tuple[int, ...]:
        ends = {id_ for key in _END_KEYS if (id_ := self._id(key)) is not None}
        ends |= {control.id for control in self._controls.values() if control.text in END_TEXTS}
        return tuple(sorted(ends))

    def _pre_tokenizer(self) -> PreTokenizer:
        name = self._metadata.get(_KEY + "pre")
        if name not in PRE_TOKENIZERS:
            shown = "without a name" if name is None else visible(str(name))
            raise UnsupportedModel(
                f"{self._shown}: the pre-tokenizer {shown} is not supported.",
                hint=f"Known are {', '.join(PRE_TOKENIZERS)}; or take the safetensors files.",
            )
        return PRE_TOKENIZERS[str(name)]

    def _texts(self, key: str) -> list[str]:
        texts = self._metadata.get(_KEY + key)
        if not isinstance(texts, list):  # the reader makes lists of strings alone
            raise self._bad(f"no {key}")
        return texts

    def _token_types(self) -> Sequence[int]:
        types = self._metadata.get(_KEY + "token_type")
        if types is None:
            return [NORMAL] * len(self._tokens)
        if not isinstance(types, Sequence) or len(types) != len(self._tokens):
            raise self._bad("no type for every token")
        return types  # type: ignore[return-value]

    def _ids_of_type(self, kind: int) -> list[int]:
        return [id_ for id_, type_ in enumerate(self._types) if type_ == kind]

    def _id(self, key: str) -> int | None:
        id_ = self._metadata.get(_KEY + key)
        if id_ is None:
            return None
        if not isinstance(id_, int) or not 0 <= id_ < len(self._tokens):
            raise self._bad(f"the {key} {id_!r}")
        return id_

    def _flag(self, key: str, *, default: bool) -> bool:
        flag = self._metadata.get(_KEY + key, default)
        if not isinstance(flag, bool):
            raise self._bad(f"the {key} {flag!r}")
        return flag

    def _bad(self, what: str) -> BadModelFile:
        return BadModelFile(
            f"{self._shown}: its tokenizer has {visible(what)}.",
            hint="The file is damaged or was converted wrongly: fetch it again.",
        )
