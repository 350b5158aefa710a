"""Opens a model by name or path: config, tokenizer, chat template and the tensors' places.

No torch; transformers only when a safetensors folder is opened for the first time.
"""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

from localpaged.errors import BadModelFile, ModelNotFound
from localpaged.models.chat_format import ChatFormat
from localpaged.models.config_numbers import check_numbers
from localpaged.models.families import GEMMAS, INTERLEAVED
from localpaged.models.gguf_config import gguf_decoder_config, gguf_tensor_places
from localpaged.models.gguf_file import read_gguf_header
from localpaged.models.gguf_tokenizer import gguf_tokenizer_data
from localpaged.models.model_record import ModelRecord
from localpaged.models.opened_model import OpenedModel
from localpaged.models.record_cache import (
    cache_entry,
    model_state,
    read_record,
    write_record,
)
from localpaged.models.registry import find_model
from localpaged.models.safetensors_folder import safetensors_places
from localpaged.models.tensor_files import SourceFile, source_file
from localpaged.models.tensor_layout import check_sizes, check_tensors, tensor_layout
from localpaged.models.text_part import text_part
from localpaged.plain_text import visible

_SAMPLES = 16
_SAMPLE_BYTES = 4_096


def open_model(name_or_path: str | Path, *, is_kept: bool = True) -> OpenedModel:
    """Open the model of that name, or the GGUF file or safetensors folder at that path.

    With `is_kept`, what was found out makes the next time faster. Raises ModelNotFound,
    BadModelFile or UnsupportedModel, each naming the file and what to do.
    """
    found = find_model(name_or_path)
    record = model_record(found.path, is_kept=is_kept)
    chat = ChatFormat(
        record.tokenizer,
        name=found.name,
        fingerprint=record.fingerprint,
        context_length=record.config.context_length,
        vocab_size=record.config.vocab_size,
    )
    return OpenedModel(
        name=found.name,
        source=found.path,
        config=record.config,
        chat=chat,
        fingerprint=record.fingerprint,
        files=record.files,
        places=record.places,
        has_interleaved_rope=record.has_interleaved_rope,
        title=record.title,
        license=record.license,
        has_norms_less_one=record.has_norms_less_one,
    )


def model_record(source: Path, *, is_kept: bool = True) -> ModelRecord:
    """Return what is known of the model at `source`: from the cache, else from its files.

    With `is_kept` it is in the cache then. Raises ModelNotFound, BadModelFile or UnsupportedModel.
    """
    try:
        if not source.exists():
            raise ModelNotFound(
                f"There is nothing at {visible(str(source))}.",
                hint="`localpaged models list` shows what is here.",
            )
        entry = cache_entry(source)
        if (known := read_record(entry)) is not None:
            return known
        record = _folder_record(source) if source.is_dir() else _gguf_record(source)
    except OSError as error:
        raise BadModelFile(
            f"{visible(str(source))} cannot be read: {error.strerror}.",
            hint="Check the disk and the permissions.",
        ) from error
    if is_kept:
        write_record(entry, record)
    return record


def _gguf_record(path: Path) -> ModelRecord:
    file = source_file(path)
    header = read_gguf_header(path)
    config = gguf_decoder_config(header)
    check_sizes(config, shown=visible(str(path)))
    check_numbers(config, shown=visible(str(path)))
    places = gguf_tensor_places(header, config)
    return ModelRecord(
        config=config,
        tokenizer=gguf_tokenizer_data(header, vocab_size=config.vocab_size),
        files=(file,),
        places=places,
        fingerprint=_fingerprint(header.digest, (file,)),
        has_interleaved_rope=config.architecture in INTERLEAVED,
        title=str(header.metadata.get("general.name", "")),
        license=str(header.metadata.get("general.license", "")),
    )


def _folder_record(folder: Path) -> ModelRecord:
    # here, for these two import transformers
    from localpaged.models.transformers_config import transformers_decoder_config
    from localpaged.models.transformers_tokenizer import transformers_tokenizer_data

    state = model_state(folder)
    config = transformers_decoder_config(folder)
    check_sizes(config, shown=visible(str(folder)))
    check_numbers(config, shown=visible(str(folder)))
    places = text_part(safetensors_places(folder))
    if config.is_tied:
        places.pop("lm_head.weight", None)  # some files carry the shared tensor twice
    places = {name: place for name, place in places.items() if not _is_buffer(name)}
    check_tensors(tensor_layout(config), places, shown=visible(str(folder)))
    files = tuple(source_file(path) for path in sorted({place.file for place in places.values()}))
    return ModelRecord(
        config=config,
        tokenizer=transformers_tokenizer_data(folder, vocab_size=config.vocab_size),
        files=files,
        places=places,
        fingerprint=_fingerprint(state, files),
        has_interleaved_rope=False,
        has_norms_less_one=config.architecture in GEMMAS,
    )


def _is_buffer(name: str) -> bool:
    """Tell whether old checkpoints saved this although the config determines it."""
    return name.endswith(("rotary_emb.inv_freq", "self_attn.masked_bias"))


def _fingerprint(digest: str, files: tuple[SourceFile, ...]) -> str:
    """Digest what tells models apart: headers, sizes, times and samples of the weights."""
    whole = hashlib.blake2b(digest.encode(), digest_size=16)
    for file in files:
        whole.update(os.fsencode(f"{file.path.name} {file.num_bytes} {file.mtime_ns}"))
        descriptor = os.open(file.path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            for sample in range(_SAMPLES):
                offset = file.num_bytes * sample // _SAMPLES
                whole.update(os.pread(descriptor, _SAMPLE_BYTES, offset))
        finally:
            os.close(descriptor)
    return whole.hexdigest()
