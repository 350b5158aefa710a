"""Takes a tokenizer and its chat template out of a transformers folder.

Transformers reads the folder's many formats; what it finds is kept as the plain JSON of the
`tokenizers` library, so that later starts need no transformers.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from localpaged.errors import BadModelFile, UnsupportedModel
from localpaged.models.gguf_tokenizer import END_TEXTS
from localpaged.models.quiet_transformers import quiet_transformers
from localpaged.models.tokenizer_data import CONTROL_PREFIX, ControlToken, TokenizerData
from localpaged.plain_text import visible


def transformers_tokenizer_data(folder: Path, *, vocab_size: int) -> TokenizerData:
    """Return the tokenizer in `folder` for a model of `vocab_size` ids.

    Raises UnsupportedModel for tokenizers that are not BPE, BadModelFile for what cannot be read
    or does not fit the model.
    """
    tokenizer = _load(folder)
    backend = tokenizer.backend_tokenizer
    frame = json.loads(backend.to_str())
    if frame["model"].get("type") != "BPE":
        raise UnsupportedModel(
            f"{visible(str(folder))}: the tokenizer {frame['model'].get('type')} is not supported.",
            hint="Models with a BPE tokenizer run.",
        )
    template = _template(tokenizer)
    controls = _take_controls(frame, template or "")
    ids = [*frame["model"]["vocab"].values(), *(control.id for control in controls)]
    if max(ids, default=0) >= vocab_size:
        raise BadModelFile(
            f"{visible(str(folder))}: the tokenizer has the id {max(ids):,}, the model only "
            f"{vocab_size:,} embeddings.",
            hint="Tokenizer and weights do not belong together: fetch the model again.",
        )
    is_byte_level = _has_type(frame["pre_tokenizer"], "ByteLevel")
    return TokenizerData(
        text_tokenizer=json.dumps(frame, ensure_ascii=False, separators=(",", ":")),
        is_byte_level=is_byte_level,
        controls=tuple(controls),
        unused_ids=(),
        bos_id=tokenizer.bos_token_id,
        adds_bos=_adds_bos(tokenizer),
        adds_space=not is_byte_level and _adds_space(backend),
        eos_ids=_eos_ids(folder, tokenizer, controls, template or ""),
        chat_template=template,
        special_texts={
            name: text for name, text in tokenizer.special_tokens_map.items() if type(text) is str
        },
    )


def _load(folder: Path) -> Any:
    with quiet_transformers():
        from transformers import AutoTokenizer

        try:
            tokenizer = AutoTokenizer.from_pretrained(
                folder, local_files_only=True, trust_remote_code=False
            )
        except Exception as error:  # it raises whatever the many formats' readers raise
            reason = visible(" ".join(str(error).split())[:300])
            raise BadModelFile(
                f"{visible(str(folder))}: the tokenizer cannot be read: {reason}",
                hint="Fetch the model again, tokenizer.json included.",
            ) from error
    if getattr(tokenizer, "backend_tokenizer", None) is None:
        raise UnsupportedModel(
            f"{visible(str(folder))} has no tokenizer.json.",
            hint="Fetch a version of the model with tokenizer.json.",
        )
    return tokenizer


def _template(tokenizer: Any) -> str | None:
    template = tokenizer.chat_template
    if isinstance(template, dict):
        template = template.get("default")
    return template or None


def _take_controls(frame: dict[str, Any], template: str) -> list[ControlToken]:
    """Take the control tokens out of a tokenizer's JSON, so that no text can become one.

    Every added token keeps its id by an entry in the model's vocabulary.
    """
    vocab, kept, controls = frame["model"]["vocab"], [], []
    for added in frame["added_tokens"]:
        text, is_hidden = added["content"], bool(added["special"])
        if is_hidden or (text in template and not text.isspace()):
            vocab.pop(text, None)
            vocab[CONTROL_PREFIX + text] = added["id"]
            controls.append(
                ControlToken(
                    added["id"],
                    text,
                    is_hidden=is_hidden,
                    strips_left=bool(added["lstrip"]),
                    strips_right=bool(added["rstrip"]),
                )
            )
        else:
            vocab[text] = added["id"]
            kept.append(added)
    unknown = frame["model"].get("unk_token")
    if unknown is not None and unknown not in vocab:
        frame["model"]["unk_token"] = CONTROL_PREFIX + unknown
    frame.update(added_tokens=kept, post_processor=None, truncation=None, padding=None)
    return controls


def _adds_bos(tokenizer: Any) -> bool:
    ids = tokenizer("a")["input_ids"]
    return tokenizer.bos_token_id is not None and ids[:1] == [tokenizer.bos_token_id]


def _adds_space(backend: Any) -> bool:
    tokens = backend.encode("a", add_special_tokens=False).tokens
    return bool(tokens) and tokens[0].startswith("\u2581")


def _eos_ids(
    folder: Path, tokenizer: Any, controls: list[ControlToken], template: str
) -> tuple[int, ...]:
    """Return the ids that the folder's configs and its template end an answer with."""
    ends: set[int] = set()
    for name in ("config.json", "generation_config.json"):
        try:
            named = json.loads((folder / name).read_bytes()).get("eos_token_id")
        except (OSError, ValueError, AttributeError):
            continue  # a model without this file or entry only has fewer named ends
        ends.update(named if isinstance(named, list) else [named])
    ends.add(tokenizer.eos_token_id)
    ends |= {
        control.id for control in controls if control.text in END_TEXTS and control.text in template
    }
    return tuple(sorted(id_ for id_ in ends if isinstance(id_, int)))


def _has_type(part: Any, type_: str) -> bool:
    if isinstance(part, dict):
        return part.get("type") == type_ or any(_has_type(item, type_) for item in part.values())
    return isinstance(part, list) and any(_has_type(item, type_) for item in part)
