"""How many KV blocks a model gets: by need, within what there is."""

from __future__ import annotations

from dataclasses import dataclass

from localpaged.config import MIN_CONTEXT_TOKENS, Settings
from localpaged.decoder_config import DecoderConfig
from localpaged.devices import Device
from localpaged.engine.params import BLOCK_SIZE_TOKENS, EngineConfig
from localpaged.errors import ConfigError, NoRoom
from localpaged.fitting.room import Room, room_on
from localpaged.memory_plan import draws_bytes

MAX_DRAFTS = 8
"""Tokens a sequence may guess in one step; how many are worth it is measured."""

FULL_CHATS = 8
"""How many chats of full context the KV pool may grow to when nobody says how much."""
SLABS_PER_CHAT = 4

STEP_TOKENS = 512
CARD_STEP_TOKENS = 2_048
"""Tokens of one step at most: enough for matrices to be multiplied at full speed, few enough for
answers to go on streaming."""

NARROW_RUNNING = 16
"""Sequences that decode together where a card has no room for more beside a model: with steps of
STEP_TOKENS they leave most of a GiB to weights and KV where the vocabulary is large."""

MAX_RUNNING = 64
CARD_MAX_RUNNING = 256
"""Sequences that decode together at most. A card reads its weights once for all of them; what more
of them cost is room for logits."""

DRAWS_SHARE_OF_CARD = 1 / 16
"""Of a card's memory, for logits and draws of so many; else there are as many as elsewhere."""

KV_SHARE_OF_FREE_MEMORY = 0.25
"""Of the machine's memory, which other programs want as well."""

KV_SHARE_OF_CARD = 0.9
"""Of what the plan leaves free on a card, which is there for this."""

USEFUL_CONTEXT_TOKENS = 2_048
"""A card's context is not clamped below this, and other formats are tried before it is."""


@dataclass(frozen=True, slots=True)
class Steps:
    """How wide steps may be: sequences that decode together, tokens of one step."""

    max_running: int
    step_tokens: int


def size_pool(
    config: DecoderConfig,
    settings: Settings,
    *,
    block_bytes: int,
    room: Room | None = None,
    taken_bytes: int = 0,
    steps: Steps | None = None,
) -> EngineConfig:
    """Size the KV pool by need: one full chat at first, growing to a few, or to what was given.

    A share of the free memory is a limit only, never a size; on a card it is one of what is free
    beside `taken_bytes`. There the pool does not grow, as recorded steps know its address. A
    context that does not fit the pool is clamped to it when it was not asked for. Raises
    ConfigError for more than the model takes, and NoRoom with the numbers when not even the
    smallest context fits, or not the one asked for.
    """
    room = room or room_on()
    steps = steps or steps_on(config, room)[0]
    asked = settings.context_tokens
    if asked is not None and asked > config.context_length:
        raise ConfigError(
            f"A context of {asked:,} tokens is too long for the model; it takes"
            f" {config.context_length:,}.",
            hint=f"Ask for less with {settings.origin('context')}, or leave it out to have it all.",
        )
    context = asked or config.context_length
    smallest = smallest_context(config, settings, room.device)
    cap_bytes = _cap_bytes(settings, room, taken_bytes)
    num_blocks = cap_bytes // block_bytes
    if settings.kv_memory_bytes is None:
        num_blocks = min(FULL_CHATS * blocks_for(context), num_blocks)
    if num_blocks < blocks_for(smallest):
        needed = blocks_for(smallest) * block_bytes
        raise NoRoom(
            f"A context of {smallest:,} tokens needs {needed / 2**20:,.1f} MiB of KV"
            f" memory; {cap_bytes / 2**20:,.1f} MiB are there.",
            hint="Ask for a smaller context or give more KV memory.",
        )
    grows = not room.device.is_cuda
    return EngineConfig(
        num_blocks=num_blocks,
        context_length=min(context, num_blocks * BLOCK_SIZE_TOKENS),
        initial_blocks=min(blocks_for(context), num_blocks) if grows else None,
        slab_blocks=-(-blocks_for(context) // SLABS_PER_CHAT) if grows else None,
        max_running=steps.max_running,
        step_tokens=steps.step_tokens,
        host_blocks=settings.host_memory_bytes // block_bytes,
        max_drafts=MAX_DRAFTS,
    )


def smallest_context(config: DecoderConfig, settings: Settings, device: Device) -> int:
    """Return the tokens that a context has at least: those asked for, or enough to be of use."""
    least = USEFUL_CONTEXT_TOKENS if device.is_cuda else MIN_CONTEXT_TOKENS
    return settings.context_tokens or min(config.context_length, least)


def steps_on(config: DecoderConfig, room: Room) -> tuple[Steps, ...]:
    """Return how wide steps may be: what is best first, what takes least memory last.

    On a card more than a few sequences decode together where that costs little.
    """
    if not room.device.is_cuda:
        return (Steps(MAX_RUNNING, STEP_TOKENS),)
    draws = draws_bytes(config, max_running=CARD_MAX_RUNNING)
    is_small = draws <= DRAWS_SHARE_OF_CARD * room.total_bytes
    running = CARD_MAX_RUNNING if is_small else MAX_RUNNING
    return Steps(running, CARD_STEP_TOKENS), Steps(NARROW_RUNNING, STEP_TOKENS)


def blocks_for(num_tokens: int) -> int:
    """Return how many blocks tokens take."""
    return -(-num_tokens // BLOCK_SIZE_TOKENS)


def _cap_bytes(settings: Settings, room: Room, taken_bytes: int) -> int:
    given = settings.kv_memory_bytes
    if given is None:
        if room.device.is_cuda:
            return max(0, int((room.free_bytes - taken_bytes) * KV_SHARE_OF_CARD))
        return int(room.free_bytes * KV_SHARE_OF_FREE_MEMORY)
    if given > room.total_bytes:
        whose = "the card" if room.device.is_cuda else "the machine"
        raise NoRoom(
            f"{given / 2**30:,.1f} GiB of KV memory are more than {whose} has:"
            f" {room.total_bytes / 2**30:,.1f} GiB.",
            hint="Give less KV memory.",
        )
    return given
