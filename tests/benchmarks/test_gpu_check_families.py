"""Each family of the proof has the same weights in both programs, before a card is asked."""

import pytest
import torch

from gpu_check_parts.families import FAMILIES, Family
from localpaged.engine.native import NativeDecoder
from testkit.decoders import make_decoder_core
from testkit.engine_runs import make_request, run

PROMPT = tuple(torch.randint(3, 300, (60,), generator=torch.Generator().manual_seed(1)).tolist())


@pytest.mark.parametrize("name", FAMILIES)
def test_a_family_answers_as_transformers_does(name):
    family = Family(name, torch.device("cpu"), num_layers=2)
    core = make_decoder_core(NativeDecoder(family.config, family.state(torch.float32)))
    outcome = run(core, [make_request("a", PROMPT, max_tokens=8, prompt_logprobs=0)])["a"]
    assert outcome.token_ids == family.generate(PROMPT, 8)
    told = [token.logprob for token in outcome.prompt_logprobs]
    assert told == pytest.approx(family.logprobs(PROMPT, torch.float32).tolist(), abs=5e-4)
