"""What options become before a model is loaded."""

from __future__ import annotations

import dataclasses
import os
from typing import Any

import click
import psutil
import pytest

from localpaged.cards import Cards
from localpaged.cli.chat import chat
from localpaged.cli.options import ENGINE_KEYS, ByteSize, settings_from
from localpaged.config import DEFAULT_KV_DISK_BYTES, DEFAULT_WEIGHTS_DISK_BYTES, Settings
from localpaged.decoder_config import DecoderConfig
from localpaged.devices import choose_device
from localpaged.engine.params import EngineConfig
from localpaged.errors import ConfigError, NoRoom
from localpaged.fitting.pool import FULL_CHATS, KV_SHARE_OF_FREE_MEMORY, size_pool
from localpaged.models.catalogue import DEFAULT_MODEL

CONFIG = DecoderConfig(
    architecture="llama",
    vocab_size=100,
    hidden_size=64,
    intermediate_size=64,
    num_layers=4,
    num_heads=4,
    num_kv_heads=2,
    head_dim=16,
    context_length=1_000,
    rms_norm_eps=1e-5,
    rope_theta=10_000.0,
)
BLOCK_BYTES = 16 * 2 * 4 * 2 * 16 * 4  # tokens × K and V × layers × heads × dim × float32
MIB = 1 << 20


def sized(config: DecoderConfig = CONFIG, **settings: Any) -> EngineConfig:
    block_bytes = 16 * config.kv_bytes_per_token(4)
    return size_pool(config, Settings("model", **settings), block_bytes=block_bytes)


@pytest.mark.parametrize(
    ("text", "num_bytes"),
    [
        ("512", 512),
        ("4k", 4_096),
        ("512M", 512 * MIB),
        ("1.5G", 1_536 * MIB),
        (" 2 GiB ", 2_048 * MIB),
        ("3mb", 3 * MIB),
    ],
)
def test_a_size_may_have_a_unit(text, num_bytes):
    assert ByteSize().convert(text, None, None) == num_bytes


def test_a_size_beyond_all_numbers_is_only_large():
    assert ByteSize().convert("9" * 400 + "G", None, None) > 10**400


@pytest.mark.parametrize("text", ["", "0", "0.0G", "0.1", "-1G", "1T", "G", "1 2", "nan", "1e9"])
def test_what_is_no_size_is_refused(text):
    with pytest.raises(click.BadParameter, match="512M"):
        ByteSize().convert(text, None, None)


def test_what_is_not_asked_for_is_left_to_the_machine():
    options = {parameter.name: None for parameter in chat.params}
    assert settings_from(options) == Settings(
        DEFAULT_MODEL,
        kv_disk_bytes=DEFAULT_KV_DISK_BYTES,
        weights_disk_bytes=DEFAULT_WEIGHTS_DISK_BYTES,
    )


@pytest.mark.parametrize(
    ("setting", "part"),
    [
        ({"dtype": "int3"}, "int3"),
        ({"kv_dtype": "int3"}, "int3"),
        ({"context_tokens": 63}, "63 tokens"),
        ({"kv_memory_bytes": MIB - 1}, "1,048,575 bytes"),
        ({"threads": 0}, "0 threads"),
        ({"threads": 100_000}, "100,000 threads were asked for; this machine has"),
    ],
)
def test_settings_that_make_no_sense_are_refused_with_what_would(setting, part):
    with pytest.raises(ConfigError, match=part) as raised:
        Settings("model", **setting)
    assert raised.value.hint


def test_the_pool_begins_with_one_full_chat_and_may_hold_a_few():
    config = sized()
    assert config.initial_blocks == 63  # a thousand tokens in blocks of sixteen
    assert config.num_blocks == FULL_CHATS * 63
    assert config.context_length == 1_000


def test_the_pool_stays_within_the_memory_that_was_given_and_the_context_within_the_pool():
    long = dataclasses.replace(CONFIG, context_length=100_000)
    config = sized(long, kv_memory_bytes=2 * MIB)
    assert config.num_blocks == 2 * MIB // BLOCK_BYTES
    assert config.context_length == config.num_blocks * 16


def test_without_a_limit_the_pool_takes_a_share_of_the_free_memory():
    endless = dataclasses.replace(CONFIG, context_length=10**9)
    config = sized(endless)
    share = KV_SHARE_OF_FREE_MEMORY * psutil.virtual_memory().available
    assert config.num_blocks * BLOCK_BYTES == pytest.approx(share, rel=0.2)


def test_more_memory_than_the_machine_has_is_refused_with_the_numbers():
    with pytest.raises(NoRoom, match=r"1,000,000\.0 GiB .* the machine has"):
        sized(kv_memory_bytes=1_000_000 << 30)


def test_a_context_that_was_asked_for_is_given_or_refused_with_the_numbers():
    assert sized(context_tokens=100, kv_memory_bytes=MIB).context_length == 100
    long = dataclasses.replace(CONFIG, context_length=100_000)
    with pytest.raises(NoRoom, match=r"50,000 tokens needs 48\.8 MiB .* 2\.0 MiB are there"):
        sized(long, context_tokens=50_000, kv_memory_bytes=2 * MIB)


def test_a_context_that_the_model_does_not_have_is_refused():
    with pytest.raises(ConfigError, match=r"1,001 tokens .* 1,000"):
        sized(context_tokens=1_001)


def test_memory_for_less_than_the_smallest_context_is_refused_with_the_numbers():
    wide = dataclasses.replace(CONFIG, num_kv_heads=512)
    with pytest.raises(NoRoom, match=r"64 tokens needs 16\.0 MiB .* 1\.0 MiB are there"):
        sized(wide, kv_memory_bytes=MIB)


def test_a_model_with_a_tiny_context_needs_no_more_than_that():
    tiny = dataclasses.replace(CONFIG, context_length=32, num_kv_heads=512)
    assert sized(tiny, kv_memory_bytes=8 * MIB).context_length == 32


def test_more_host_memory_than_the_machine_has_is_refused_under_its_own_name():
    with pytest.raises(ConfigError, match=r"999,999\.0 GiB of host memory") as refused:
        Settings(model="m", host_memory_bytes=999_999 << 30)
    assert "--host-memory" in refused.value.hint


WRONG = {
    "LOCALPAGED_KV_DISK": ("lots", "LOCALPAGED_KV_DISK: 'lots' is not a size"),
    "LOCALPAGED_WEIGHTS_DISK": ("lots", "LOCALPAGED_WEIGHTS_DISK: 'lots' is not a size"),
    "LOCALPAGED_CONTEXT": ("many", "LOCALPAGED_CONTEXT: 'many' is not a valid integer"),
    "LOCALPAGED_DTYPE": ("int3", "LOCALPAGED_DTYPE: 'int3' is not one of"),
    "LOCALPAGED_THREADS": ("100000", "LOCALPAGED_THREADS: 100,000 threads were asked for"),
    "LOCALPAGED_KV_MEMORY": ("1k", "LOCALPAGED_KV_MEMORY: 1,024 bytes"),
    "LOCALPAGED_HOST_MEMORY": ("999999G", "LOCALPAGED_HOST_MEMORY: 999,999.0 GiB of host"),
    "LOCALPAGED_KV_DTYPE": ("x", "LOCALPAGED_KV_DTYPE: 'x' is not one of"),
    "LOCALPAGED_DEVICE": ("gpu", "LOCALPAGED_DEVICE: 'gpu' is not a device"),
}


def refused(home, arguments=(), **environment):
    """Return what `localpaged config` says to settings that cannot be."""
    import subprocess
    import sys

    del home
    command = [sys.executable, "-m", "localpaged", "config", *arguments]
    done = subprocess.run(
        command, env={**os.environ, **environment}, capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 2
    return done.stderr


@pytest.mark.parametrize(("name", "text", "sentence"), [(n, *w) for n, w in WRONG.items()])
def test_a_wrong_variable_is_blamed_by_its_name_and_not_the_option(home, name, text, sentence):
    told = refused(home, **{name: text})
    assert sentence in told
    option = "--" + name.removeprefix("LOCALPAGED_").lower().replace("_", "-")
    assert option not in told


def test_a_wrong_option_is_blamed_by_its_own_name_whatever_the_variable_says(home):
    told = refused(home, ("--kv-disk", "lots"), LOCALPAGED_KV_DISK="2G")
    assert "'--kv-disk'" in told
    assert "LOCALPAGED" not in told


def test_every_setting_has_a_variable_that_is_blamed():
    names = {key.variable for key in ENGINE_KEYS.values()}
    assert names - set(WRONG) == {"LOCALPAGED_MODEL"}  # any text may name one


def test_what_is_found_out_later_names_who_asked_for_it():
    asked = Settings("m", device="cuda", origins={"device": "LOCALPAGED_DEVICE"})
    with pytest.raises(ConfigError) as error:
        choose_device(asked, Cards())
    assert "LOCALPAGED_DEVICE" in error.value.hint
