from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from localpaged.models.catalogue import DEFAULT_MODEL
from localpaged.models.open_model import open_model
from localpaged.models.registry import owned_path
from testkit.tiny_model import FAMILIES, save_tiny_model

if TYPE_CHECKING:
    from collections.abc import Callable

# found before any test moves LOCALPAGED_HOME away
DEFAULT_MODEL_FILE = Path(os.environ.get("LOCALPAGED_TEST_MODEL", owned_path(DEFAULT_MODEL)))


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("LOCALPAGED_HOME", str(tmp_path / "home"))
    return tmp_path / "home"


@pytest.fixture(autouse=True, scope="session")
def one_torch_thread() -> None:
    import torch

    torch.set_num_threads(1)


@pytest.fixture(scope="session")
def default_model_file() -> Path:
    if not DEFAULT_MODEL_FILE.is_file():
        pytest.skip(f"{DEFAULT_MODEL_FILE} is not there: `localpaged models pull`")
    return DEFAULT_MODEL_FILE


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
def default_model(default_model_file: Path) -> tuple[Any, Any]:
    """Return the default model's chat format and transformers' tokenizer, made independently."""
    import transformers
    from gguf import GGUFReader
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers

    fields = GGUFReader(default_model_file).fields
    metadata = {key: field.contents() for key, field in fields.items()}
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
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("LOCALPAGED_HOME", str(default_model_file.parent / "no-home"))
        chat = open_model(default_model_file).chat
    return chat, reference
