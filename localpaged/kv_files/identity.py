"""KVIdentity: all that KV depends on beside the tokens. Equal identity, exchangeable KV."""

from __future__ import annotations

import hashlib
import math
from dataclasses import dataclass

FORMAT = "localpaged-kv-1"
"""Changes whenever a file of the one version would be misread by the other."""

MAX_SEGMENT_BYTES = 8 << 20
"""A file is written and read in one go, and moved to and from the engine between two steps."""
MAX_SEGMENT_BLOCKS = 16
ID_BYTES = 4
HEADER_BYTES = 1_024
"""About what a header takes."""


@dataclass(frozen=True, slots=True)
class Part:
    """Numbers that belong to every block: [layers, blocks, *block_shape].

    `dtype` is called as safetensors does.
    """

    name: str
    dtype: str
    item_bytes: int
    num_layers: int
    block_shape: tuple[int, ...]

    @property
    def block_bytes(self) -> int:
        """Bytes of one block in all layers."""
        return self.num_layers * math.prod(self.block_shape) * self.item_bytes

    def shape(self, num_blocks: int) -> list[int]:
        """Return the shape of so many blocks."""
        return [self.num_layers, num_blocks, *self.block_shape]


@dataclass(frozen=True, slots=True)
class KVIdentity:
    """What two computations must have in common so that one may use the other's KV.

    `facts` are names and texts: weights, number formats, rope, versions. They stand in every file
    and make up its folder's name, so that a difference anywhere is another folder.
    """

    facts: tuple[tuple[str, str], ...]
    block_size: int
    parts: tuple[Part, ...]
    max_segment_blocks: int = MAX_SEGMENT_BLOCKS

    @property
    def fingerprint(self) -> str:
        """A digest of everything, 32 hexadecimal digits."""
        whole = repr((FORMAT, self.facts, self.block_size, self.parts, self.segment_blocks))
        return hashlib.blake2b(whole.encode(), digest_size=16).hexdigest()

    @property
    def block_bytes(self) -> int:
        """Bytes of one block."""
        return sum(part.block_bytes for part in self.parts)

    @property
    def segment_blocks(self) -> int:
        """Blocks of a whole file; only the end of a path is shorter."""
        return max(1, min(self.max_segment_blocks, MAX_SEGMENT_BYTES // self.block_bytes))

    def file_bytes(self, num_blocks: int, *, num_tokens: int) -> int:
        """Return about what a file takes that ends `num_tokens` tokens behind the beginning."""
        return num_blocks * self.block_bytes + num_tokens * ID_BYTES + HEADER_BYTES

    @property
    def segment_tokens(self) -> int:
        """Tokens of a whole file."""
        return self.segment_blocks * self.block_size
