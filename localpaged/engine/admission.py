"""What is refused at submit, with its numbers, because it could never be answered."""

from __future__ import annotations

from localpaged.engine.params import EngineConfig, Request, SamplingParams
from localpaged.errors import BadParameter, EngineError, PromptTooLong


def check_request(
    request: Request, config: EngineConfig, *, vocab_size: int, is_running: bool, num_waiting: int
) -> None:
    """Raise EngineError or PromptTooLong for a request that can never be answered."""
    limit = config.context_length
    num_prompt = len(request.prompt_ids)
    if not num_prompt:
        raise EngineError("The prompt is empty.", hint="Write something first.")
    if num_prompt >= limit:
        raise PromptTooLong(
            f"The prompt has {num_prompt:,} tokens; the context holds {limit:,}, answer included.",
            hint="Shorten the prompt or start a new chat.",
        )
    max_tokens = request.sampling.max_tokens
    if max_tokens is not None and num_prompt + max_tokens > limit:
        raise PromptTooLong(
            f"{num_prompt:,} prompt tokens and an answer of up to {max_tokens:,} need "
            f"{num_prompt + max_tokens:,}; the context holds {limit:,}.",
            hint=f"Ask for at most {limit - num_prompt:,} tokens.",
        )
    if is_running:
        raise EngineError(f"Request {request.id} is running already.")
    if num_waiting >= config.max_waiting:
        raise EngineError(
            f"{num_waiting:,} requests are waiting already.",
            hint="Try again when some are done.",
        )
    if not all(type(id_) is int and 0 <= id_ < vocab_size for id_ in request.prompt_ids):
        raise EngineError("The prompt has token ids that the model does not know.")
    _check_sampling_ids(request.sampling, vocab_size)


def _check_sampling_ids(sampling: SamplingParams, vocab_size: int) -> None:
    for name, ids in (
        ("logit_bias", [token_id for token_id, _ in sampling.logit_bias]),
        ("stop_token_ids", sampling.stop_token_ids),
    ):
        unknown = [token_id for token_id in ids if token_id >= vocab_size]
        if unknown:
            raise BadParameter(
                f"{name} has token id {unknown[0]:,}; the model knows {vocab_size:,} tokens."
            )
