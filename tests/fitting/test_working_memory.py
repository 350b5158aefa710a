"""What a forward pass holds on the processor is counted before anything is allocated."""

from dataclasses import replace

from localpaged.decoder_config import DecoderConfig
from localpaged.memory_plan import angles_bytes, card_working_bytes, processor_working_bytes

CONFIG = DecoderConfig("gemma3", 1_000, 64, 128, 2, 4, 2, 32, 4_096, 1e-6, 1e6, sliding_window=512)
TABLE_BYTES = 2 * 4 * 4_096 * 32


def test_windows_with_a_base_of_their_own_take_a_second_table():
    local = replace(CONFIG, local_rope_theta=1e4)
    assert angles_bytes(CONFIG) == TABLE_BYTES
    sizes = [processor_working_bytes(config, step_tokens=512) for config in (CONFIG, local)]
    assert sizes[1] - sizes[0] == TABLE_BYTES
    on_card = [
        card_working_bytes(config, step_tokens=512, max_running=8) for config in (CONFIG, local)
    ]
    assert on_card[1] - on_card[0] == TABLE_BYTES


def test_scores_that_are_capped_exist():
    capped = replace(CONFIG, attention_softcap=50.0)
    sizes = [processor_working_bytes(config, step_tokens=512) for config in (CONFIG, capped)]
    assert sizes[1] - sizes[0] >= 2 * 512 * 4_096 * 4  # of the two heads that share a KV head
