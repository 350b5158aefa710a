"""Loads weights: reads, dequantises and fuses tensor by tensor into preallocated outputs.

Memory: the result plus a few megabytes of scratch; no tensor is ever held twice. Where the result
lies on a device, the scratch is all that the host has of it.
Everything here runs on the one thread that runs torch.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from typing import TYPE_CHECKING

from localpaged.models.dequantise import dequantise, is_plain
from localpaged.models.four_bit import is_four_bit, pack_four_bit
from localpaged.models.progress import Progress
from localpaged.models.quantise import empty_quantised
from localpaged.models.raw_tensor import RawTensor
from localpaged.models.tensor_files import TensorFiles
from localpaged.models.tensor_layout import (
    ROPE_FACTORS,
    FusedTensor,
    SourceTensor,
    TensorPlace,
    tensor_layout,
)
from localpaged.models.weight_forms import DENSE, Asked, Form, forms_of

if TYPE_CHECKING:
    import torch

    from localpaged.models.opened_model import OpenedModel

LOADING = "Loading weights"
CHUNK_ITEMS = 2**18  # a chunk's bytes and float32 numbers stay inside a core's L2 cache
# Below this one thread is as fast: the operators are short, and a team of threads that shares
# its cores with other work waits for its slowest member after each of them.
FEW_NUMBERS = 2**29
DEVICE_CHUNK_ITEMS = 2**22
"""Numbers that cross the bus at a time; smaller pieces cost more than they carry."""


def load_state(
    opened: OpenedModel,
    *,
    dtype: torch.dtype,
    projection_dtype: torch.dtype | None = None,
    with_four_bit: bool = False,
    weights: Asked = DENSE,
    device: torch.device | None = None,
    on_progress: Progress | None = None,
) -> dict[str, torch.Tensor]:
    """Return the engine's fused state dict in `dtype`; rope factors are float32.

    With a `device` it is made there, chunk by chunk: host memory never has more than a chunk.
    The layers' matrices may have a dtype of their own. `with_four_bit` adds those whose file
    has them in 4 bits a second time, unexpanded, as NAME.four_bit and NAME.four_bit_scales.
    `weights` are what matrices are kept in for a card, see `weight_forms`: NAME.int8 or NAME.int4
    and their scales instead of NAME.weight.
    Raises BadModelFile when a file has changed since the model was opened.
    """
    with closing(
        StateReader(
            opened,
            dtype=dtype,
            projection_dtype=projection_dtype,
            with_four_bit=with_four_bit,
            weights=weights,
            device=device,
            on_progress=on_progress,
        )
    ) as reader:
        state: dict[str, torch.Tensor] = {}
        for name in reader.names:
            state |= reader.read(name)
        reader.check()
    return state


class StateReader:
    """Reads the tensors of `load_state` one by one. The thread that runs torch; close it."""

    def __init__(
        self,
        opened: OpenedModel,
        *,
        dtype: torch.dtype,
        projection_dtype: torch.dtype | None = None,
        with_four_bit: bool = False,
        weights: Asked = DENSE,
        device: torch.device | None = None,
        on_progress: Progress | None = None,
    ) -> None:
        self._opened = opened
        self._dtype = dtype
        self._projection_dtype = projection_dtype or dtype
        self._with_four_bit = with_four_bit
        self._device = device
        self._report = on_progress or (lambda stage, done, total: None)
        self._files = TensorFiles(opened.files)
        layout = tensor_layout(opened.config)
        types = {name: place.type for name, place in opened.places.items()}
        self._forms = forms_of(layout, types, weights)
        self._fused = {fused.name: fused for fused in layout}
        self._done_bytes = 0

    @property
    def names(self) -> tuple[str, ...]:
        """What there is, in the order of computation."""
        return (*self._fused, *([ROPE_FACTORS] if ROPE_FACTORS in self._opened.places else []))

    def read(self, name: str) -> dict[str, torch.Tensor]:
        """Return a tensor under its name, or the forms of it that were asked for under theirs.

        Raises BadModelFile when a file has changed since the model was opened.
        """
        with _torch_threads(self._opened.num_parameters):
            if name == ROPE_FACTORS:
                return {name: self._rope_factors()}
            fused = self._fused[name]
            if (form := self._forms[name]) != DENSE:
                return _quantised(
                    self._opened, self._files, fused, form, device=self._device, tell=self._tell
                )
            state = {name: self._dense(fused)}
            if self._with_four_bit and fused.projection is not None:
                state |= _four_bit(self._opened, self._files, fused)
            return state

    def check(self) -> None:
        """Raise BadModelFile where a file was written to while it was read."""
        self._files.check()

    def close(self) -> None:
        """Close the model's files."""
        self._files.close()

    def _dense(self, fused: FusedTensor) -> torch.Tensor:
        import torch

        dtype = self._dtype if fused.projection is None else self._projection_dtype
        whole = torch.empty(fused.shape, dtype=dtype, device=self._device)
        row = 0
        for part in fused.parts:
            rows = whole[row : row + part.shape[0]]
            if fused.is_norm:
                rows.copy_(self._norm(fused, self._opened.places[part.name]))
            else:
                self._read_into(part.name, rows)
            if heads := _interleaved_heads(self._opened, part):
                rows.copy_(_halves_of_pairs(rows, heads))
            row += part.shape[0]
            self._tell(self._opened.places[part.name])
        return whole

    def _norm(self, fused: FusedTensor, place: TensorPlace) -> torch.Tensor:
        """Return a norm's weights as float32: rounded before one is added they would lose most."""
        import torch

        numbers = torch.empty(place.shape, dtype=torch.float32)
        _read_into(self._files, place, numbers)
        if self._opened.has_norms_less_one:
            numbers.add_(1)
        return numbers.mul_(self._opened.config.last_norm_scale) if fused.is_last_norm else numbers

    def _rope_factors(self) -> torch.Tensor:
        import torch

        place = self._opened.places[ROPE_FACTORS]
        factors = torch.empty(place.shape, dtype=torch.float32, device=self._device)
        self._read_into(ROPE_FACTORS, factors)
        self._tell(place)
        return factors

    def _read_into(self, name: str, out: torch.Tensor) -> None:
        read = _read_into if self._device is None else _read_over
        read(self._files, self._opened.places[name], out)

    def _tell(self, place: TensorPlace) -> None:
        self._done_bytes += place.num_bytes
        self._report(LOADING, self._done_bytes, self._opened.file_bytes)


def _quantised(
    opened: OpenedModel,
    files: TensorFiles,
    fused: FusedTensor,
    form: Form,
    *,
    device: torch.device | None,
    tell: Callable[[TensorPlace], None],
) -> dict[str, torch.Tensor]:
    """Read a matrix by the chunk, each rounded where it is to lie."""
    made = empty_quantised(fused.shape, form, device)
    first = 0
    for part in fused.parts:
        place, count = opened.places[part.name], part.shape[0]
        row_bytes = place.num_bytes // count
        step = max(1, DEVICE_CHUNK_ITEMS // part.shape[1])
        for start in range(0, count, step):
            raw = _read_bytes(files, place, start, min(step, count - start), row_bytes)
            made.put(first + start, place.type, raw)
        if heads := _interleaved_heads(opened, part):
            rows = slice(first, first + count)
            made.numbers[rows] = _halves_of_pairs(made.numbers[rows], heads)
            scales = made.scales[:, rows].transpose(0, 1).contiguous()
            made.scales[:, rows] = _halves_of_pairs(scales, heads).transpose(0, 1)
        first += count
        tell(place)
    stem = fused.name.removesuffix(".weight")
    return {f"{stem}.{form}": made.numbers, f"{stem}.{form}_scales": made.scales}


@contextmanager
def _torch_threads(num_parameters: int) -> Iterator[None]:
    """Use one torch thread inside the block for a model of few numbers."""
    import torch

    threads = torch.get_num_threads()
    if num_parameters < FEW_NUMBERS:
        torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(threads)


def _read_raw(opened: OpenedModel, files: TensorFiles, part: SourceTensor) -> RawTensor:
    import torch

    place = opened.places[part.name]
    num_rows = place.shape[0] if len(place.shape) > 1 else 1
    data = torch.empty((num_rows, place.num_bytes // num_rows), dtype=torch.uint8)
    files.read(place, 0, memoryview(data.numpy()))
    if num_rows > 1 and (heads := _interleaved_heads(opened, part)):
        data = _halves_of_pairs(data, heads)
    return RawTensor(place.type, place.shape, data)


def _four_bit(
    opened: OpenedModel, files: TensorFiles, fused: FusedTensor
) -> dict[str, torch.Tensor]:
    if not all(is_four_bit(opened.places[part.name].type) for part in fused.parts):
        return {}
    packed = pack_four_bit(tuple(_read_raw(opened, files, part) for part in fused.parts))
    if packed is None:
        return {}
    numbers, scales = packed
    return {
        f"{fused.projection}.four_bit": numbers,
        f"{fused.projection}.four_bit_scales": scales,
    }


def _interleaved_heads(opened: OpenedModel, part: SourceTensor) -> int:
    return part.rope_heads if opened.has_interleaved_rope else 0


def _halves_of_pairs(rows: torch.Tensor, heads: int) -> torch.Tensor:
    """Reorder the rows of each head from pairs that rotate together to two halves that do."""
    pairs = rows.view(heads, rows.shape[0] // heads // 2, 2, *rows.shape[1:])
    return pairs.transpose(1, 2).reshape(rows.shape)


def _read_into(files: TensorFiles, place: TensorPlace, out: torch.Tensor) -> None:
    """Read and dequantise a tensor into `out`, a chunk of rows at a time."""
    import torch

    for start, rows in _chunks(out, CHUNK_ITEMS * torch.get_num_threads()):
        _read_rows(files, place, start, rows, num_rows=out.numel() // out.shape[-1])


def _read_over(files: TensorFiles, place: TensorPlace, out: torch.Tensor) -> None:
    """Do the same with `out` on a device."""
    import torch

    for start, rows in _chunks(out, DEVICE_CHUNK_ITEMS):
        here = torch.empty(rows.shape, dtype=rows.dtype)
        for first, few in _chunks(here, CHUNK_ITEMS * torch.get_num_threads()):
            num_rows = out.numel() // out.shape[-1]
            _read_rows(files, place, start + first, few, num_rows=num_rows)
        rows.copy_(here)


def _chunks(out: torch.Tensor, num_items: int) -> Iterator[tuple[int, torch.Tensor]]:
    """Yield rows of about so many numbers together, each time with the number of the first."""
    target = out.view(-1, out.shape[-1])  # a vector is one row
    step = max(1, num_items // target.shape[1])
    for start in range(0, target.shape[0], step):
        yield start, target[start : start + step]


def _read_rows(
    files: TensorFiles, place: TensorPlace, start: int, rows: torch.Tensor, *, num_rows: int
) -> None:
    """Read and dequantise rows of a tensor of `num_rows`, from row `start` on."""
    import torch

    raw = _read_bytes(files, place, start, rows.shape[0], place.num_bytes // num_rows)
    if is_plain(place.type) or rows.dtype == torch.float32:
        dequantise(place.type, raw, rows)
    else:
        numbers = torch.empty(rows.shape, dtype=torch.float32)
        dequantise(place.type, raw, numbers)
        rows.copy_(numbers)


def _read_bytes(
    files: TensorFiles, place: TensorPlace, start: int, count: int, row_bytes: int
) -> torch.Tensor:
    """Return `count` rows as the file has them, from row `start` on, uint8 [count, row bytes]."""
    import torch

    raw = torch.empty((count, row_bytes), dtype=torch.uint8)
    files.read(place, start * row_bytes, memoryview(raw.numpy()))
    return raw
