"""The pre-tokenizers of byte-level BPE tokenizers, under the names GGUF files give them.

GGUF stores only a name; what it means is fixed by the original tokenizer. A wrong guess cuts
words at other places and silently makes the model worse, so unknown names are refused.
"""

from __future__ import annotations

from dataclasses import dataclass

from tokenizers import Regex, normalizers, pre_tokenizers

_CONTRACTION = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)"
_LINES_AND_SPACES = r"\s*[\r\n]+|\s+(?!\S)|\s+"
_LLAMA3 = (
    _CONTRACTION + r"|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|"
) + _LINES_AND_SPACES
_QWEN2 = _LLAMA3.replace(r"\p{N}{1,3}", r"\p{N}")
_UPPER, _LOWER = r"[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]", r"[\p{Ll}\p{Lm}\p{Lo}\p{M}]"
_TEKKEN = (
    rf"[^\r\n\p{{L}}\p{{N}}]?{_UPPER}*{_LOWER}+|[^\r\n\p{{L}}\p{{N}}]?{_UPPER}+{_LOWER}*"
    r"|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*|"
) + _LINES_AND_SPACES


@dataclass(frozen=True, slots=True)
class PreTokenizer:
    """How text is cut into words before merging.

    `pattern` None is GPT-2's. `splits_digits` cuts every digit off first. `ignores_merges` takes
    a word that is in the vocabulary whole. `adds_bos` holds unless the file says otherwise.
    """

    pattern: str | None = None
    splits_digits: bool = False
    normalises_nfc: bool = False
    ignores_merges: bool = False
    adds_bos: bool = False

    def steps(self) -> pre_tokenizers.PreTokenizer:
        """Return the `tokenizers` object that cuts and maps to the byte alphabet."""
        if self.pattern is not None:
            return pre_tokenizers.Sequence(
                [
                    pre_tokenizers.Split(Regex(self.pattern), behavior="isolated"),
                    pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
                ]
            )
        gpt2 = pre_tokenizers.ByteLevel(add_prefix_space=False)
        if self.splits_digits:
            return pre_tokenizers.Sequence([pre_tokenizers.Digits(individual_digits=True), gpt2])
        return gpt2

    def normalizer(self) -> normalizers.Normalizer | None:
        """Return what is done to text before it is cut."""
        return normalizers.NFC() if self.normalises_nfc else None


_GPT2 = PreTokenizer()
_SMOLLM = PreTokenizer(splits_digits=True)
_LLAMA_BPE = PreTokenizer(_LLAMA3, ignores_merges=True, adds_bos=True)
_QWEN = PreTokenizer(_QWEN2, normalises_nfc=True)

PRE_TOKENIZERS = {
    "gpt-2": _GPT2,
    "gpt2": _GPT2,
    "smollm": _SMOLLM,
    "starcoder": _SMOLLM,
    "refact": _SMOLLM,
    "llama-bpe": _LLAMA_BPE,
    "llama3": _LLAMA_BPE,
    "llama-v3": _LLAMA_BPE,
    "dbrx": PreTokenizer(_LLAMA3),
    "olmo": _GPT2,
    "qwen2": _QWEN,
    "deepseek-r1-qwen": _QWEN,
    "tekken": PreTokenizer(_TEKKEN, ignores_merges=True, adds_bos=True),
}
