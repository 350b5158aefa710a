"""Makes what keeps a model's KV in files: the identity that KV depends on, and its keeper."""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Callable
from typing import TYPE_CHECKING

from localpaged import __version__
from localpaged.kv_files.folder import KVFolder
from localpaged.kv_files.identity import KVIdentity
from localpaged.kv_files.keeper import KVKeeper
from localpaged.models.opened_model import OpenedModel
from localpaged.models.weights_digest import files_version, weights_digest

if TYPE_CHECKING:
    from localpaged.engine.kv_storage import KVStorage

log = logging.getLogger(__name__)

COMPUTATION = "4"
"""Changes with whatever changes the KV that the decoder computes from the same weights."""

OnProgress = Callable[[int, int], None]


class KVKeeping:
    """One model's way to its keeper: `begin` before its weights are read, `keeper` afterwards."""

    def __init__(
        self, opened: OpenedModel, *, budget_bytes: int, is_deleted: Callable[[str], bool]
    ) -> None:
        """`is_deleted` tells whether a chat's KV must not be kept; on the keeper's thread.

        Weights that change between now and `keeper` have none.
        """
        self._opened = opened
        self._budget_bytes = budget_bytes
        self._is_deleted = is_deleted
        self._version = _version_of(opened)

    def keeper(self, kv: KVStorage, *, compute: str, on_progress: OnProgress) -> KVKeeper | None:
        """Return the keeper; None, and the log tells why, when KV cannot be kept.

        `compute` tells in which numbers is computed.
        """
        try:
            weights = weights_digest(self._opened.files, on_progress)
        except OSError as error:
            log.warning("KV is not kept in files: %s", error.strerror or error)
            return None
        if not self._version or _version_of(self._opened) != self._version:
            log.warning("KV is not kept in files: the model's files changed while it loaded")
            return None
        identity = kv_identity(self._opened, kv, weights=weights, compute=compute)
        folder = KVFolder(identity)
        return KVKeeper(folder, budget_bytes=self._budget_bytes, is_deleted=self._is_deleted)


def kv_identity(opened: OpenedModel, kv: KVStorage, *, weights: str, compute: str) -> KVIdentity:
    """Return all that a model's KV depends on beside the tokens."""
    import torch

    config = opened.config
    # The same operators round otherwise on another processor, or in another release.
    machine = f"torch {torch.__version__} {torch.backends.cpu.get_cpu_capability()}"
    decoder = f"{config} {opened.has_interleaved_rope} {opened.has_norms_less_one}"
    facts = (
        ("weights", weights),
        ("decoder", hashlib.blake2b(decoder.encode(), digest_size=16).hexdigest()),
        ("rope", f"theta {config.rope_theta} scaling {config.rope_scaling}"),
        ("compute", compute),
        ("kv_dtype", kv.forms[0].dtype),
        ("program", f"localpaged {__version__} computation {COMPUTATION}"),
        ("machine", machine),
    )
    return KVIdentity(facts, kv.block_size, kv.forms)


def _version_of(opened: OpenedModel) -> str:
    try:
        return files_version(opened.files)
    except OSError:
        return ""
