from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from localpaged.models.open_model import open_model
from testkit.tiny_model import FAMILIES, save_tiny_model

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


@pytest.fixture(autouse=True, scope="session")
def one_torch_thread() -> None:
    import torch

    torch.set_num_threads(1)


@pytest.fixture(scope="session")
def tiny_folder(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """Return the read-only folder of a family's tiny model, made once."""
    root = tmp_path_factory.mktemp("tiny")
    assert FAMILIES

    def folder(family: str) -> Path:
        if not (root / family).exists():
            save_tiny_model(root / family, family)
        return root / family

    return folder


@pytest.fixture(scope="session")
def default_reader(default_model: Path) -> Any:
    """The gguf library's reader of the default model; it takes seconds."""
    from gguf import GGUFReader

    return GGUFReader(default_model)


@pytest.fixture(scope="session")
def default_chat(default_model: Path, default_reader: Any) -> tuple[Any, Any]:
    """Return the default model's chat format and transformers' tokenizer, made independently."""
    import transformers
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers

    metadata = {key: field.contents() for key, field in default_reader.fields.items()}
    tokens = metadata["tokenizer.ggml.tokens"]
    merges = [tuple(merge.split(" ")) for merge in metadata["tokenizer.ggml.merges"]]
    tokenizer = Tokenizer(models.BPE({token: id_ for id_, token in enumerate(tokens)}, merges))
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Digits(individual_digits=True),
            pre_tokenizers.ByteLevel(add_prefix_space=False),
        ]
    )
    tokenizer.decoder = decoders.ByteLevel()
    types = metadata["tokenizer.ggml.token_type"]
    tokenizer.add_special_tokens([tokens[id_] for id_, kind in enumerate(types) if kind == 3])
    reference = transformers.PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        bos_token=tokens[metadata["tokenizer.ggml.bos_token_id"]],
        eos_token=tokens[metadata["tokenizer.ggml.eos_token_id"]],
        chat_template=metadata["tokenizer.chat_template"],
        clean_up_tokenization_spaces=False,
    )
    return open_model(default_model).chat, reference
