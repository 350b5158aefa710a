"""Fetches models from the Hugging Face hub into its own cache, which other tools share.

The hub's library resumes, locks, verifies and shows its own progress on a terminal.
"""

from __future__ import annotations

import re
from pathlib import Path

from localpaged.errors import ConfigError, ModelError, ModelNotFound, ModelOffline
from localpaged.plain_text import visible

HUB_ID = re.compile(r"[\w-][\w.-]*/[\w-][\w.-]*(?:/[\w./-]+\.gguf)?")

_FOLDER_FILES = ["*.json", "*.safetensors", "*.jinja", "tokenizer.model"]
_TIMEOUT_S = 15.0
MAX_ID_CHARS = 96


def fetch_from_hub(hub_id: str, *, endpoint: str | None = None, cache: Path | None = None) -> Path:
    """Return the path of `org/name`, a safetensors folder, or of `org/name/file.gguf`, once whole.

    `endpoint` and `cache` default to the hub's own settings. Raises ModelOffline when the hub does
    not answer, ModelNotFound when it has no such model or wants a login, ModelError otherwise.
    """
    from huggingface_hub import errors, hf_hub_download, snapshot_download
    from huggingface_hub.errors import HTTPError  # type: ignore[attr-defined]

    organisation, name, *file = hub_id.split("/", 2)
    if len(f"{organisation}/{name}") > MAX_ID_CHARS:
        raise ConfigError(
            f"A Hugging Face id has at most {MAX_ID_CHARS} characters, not"
            f" {len(organisation) + 1 + len(name):,}."
        )
    repository = f"{organisation}/{name}"
    try:
        if file:
            found = hf_hub_download(
                repository, file[0], endpoint=endpoint, cache_dir=cache, etag_timeout=_TIMEOUT_S
            )
        else:
            found = snapshot_download(
                repository,
                allow_patterns=_FOLDER_FILES,
                ignore_patterns=["*/*"],
                endpoint=endpoint,
                cache_dir=cache,
                etag_timeout=_TIMEOUT_S,
            )
    except errors.GatedRepoError as error:
        raise ModelNotFound(
            f"{hub_id} is only given to people who have accepted its licence.",
            hint="Accept it on the model's page, run `hf auth login`, then pull again.",
        ) from error
    except (errors.RepositoryNotFoundError, errors.RemoteEntryNotFoundError) as error:
        raise ModelNotFound(
            f"Hugging Face has no {hub_id}, or it is private.",
            hint="Check the spelling; `hf auth login` opens private models.",
        ) from error
    except errors.HFValidationError as error:
        raise ConfigError(f"{hub_id} is not a Hugging Face id: {visible(str(error))}.") from error
    except (errors.LocalEntryNotFoundError, errors.OfflineModeIsEnabled) as error:
        if isinstance(error.__cause__, errors.HfHubHTTPError):
            raise _failed(hub_id, error.__cause__) from error
        raise _offline(hub_id) from error
    except (errors.HfHubHTTPError, OSError) as error:
        raise _failed(hub_id, error) from error
    except HTTPError as error:  # the connection broke
        raise _offline(hub_id) from error
    return Path(found)


def _failed(hub_id: str, error: Exception) -> ModelError:
    reason = visible(str(error).strip().split("\n")[0])
    return ModelError(
        f"{hub_id} could not be fetched: {reason}.",
        hint="Pull again later; what was fetched is kept.",
    )


def _offline(hub_id: str) -> ModelOffline:
    return ModelOffline(
        f"{hub_id} cannot be fetched: Hugging Face does not answer.",
        hint="Check the network and HF_ENDPOINT, or pull a local file or folder instead.",
    )
