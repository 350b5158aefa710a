"""Compares: one prompt, several answers side by side, each in a chat that is hidden until kept.

The chats begin with the same messages, so the engine reads the prompt once and they share its
blocks. They are chats like any other: durable, continued, answered anew, and never lost.
"""

from __future__ import annotations

import secrets
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field, replace
from typing import Any

from localpaged.chat.errors import answer_is_running
from localpaged.chat.live import LiveTurn, LiveTurns, open_turn
from localpaged.chat.models import Models, name_of
from localpaged.chat.runner import TurnRunner
from localpaged.chat.sampling_options import pack_overrides, unpack_overrides, with_overrides
from localpaged.chat.title import auto_title
from localpaged.engine.params import SamplingParams
from localpaged.errors import BadParameter, ChatError
from localpaged.store.rows import Chat, Compare, Exchange, Message
from localpaged.store.store import Store, new_id
from localpaged.store.text import storable
from localpaged.store.tree import make_message
from localpaged.store.writes import Write, change_chat

MAX_BRANCHES = 16


@dataclass(frozen=True, slots=True)
class BranchSpec:
    """How one answer is made: by which model ("" is the default one), with which own sampling."""

    model: str = ""
    overrides: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Branch:
    """A chat of a compare, and its lines from the prompt on."""

    chat: Chat
    exchanges: Sequence[Exchange]

    @property
    def is_kept(self) -> bool:
        """Whether it is in the list of chats."""
        return not self.chat.is_hidden


@dataclass(frozen=True, slots=True)
class Comparison:
    """A compare as it is now; chats that were deleted are left out.

    The prompt was asked behind `num_before` messages of a chat, its system text not counted.
    """

    compare: Compare
    branches: Sequence[Branch]
    num_before: int = 0


def make_specs(
    *,
    models: Sequence[str] = (),
    num_samples: int | None = None,
    temperatures: Sequence[float] = (),
    seed: int | None = None,
) -> list[BranchSpec]:
    """Return `num_samples` answers of each model, those of one model beside each other.

    Temperatures and seeds, which count up from `seed`, go round in each model's samples. Without a
    number there is a sample for each temperature, else two of a single model and one of several.
    Raises BadParameter.
    """
    models = list(dict.fromkeys(models)) or [""]
    num_default = len(temperatures) or (2 if len(models) == 1 else 1)
    num_each = num_default if num_samples is None else num_samples
    num_all = num_each * len(models)
    if not 1 <= num_all <= MAX_BRANCHES:
        raise BadParameter(
            f"A compare has 1 to {MAX_BRANCHES} answers, not {num_all:,}.",
            hint="Ask for fewer samples or fewer models."
            if num_all > 0
            else "Ask for one at least.",
        )
    specs = []
    for model in models:
        for number in range(num_each):
            overrides: dict[str, Any] = {}
            if temperatures:
                overrides["temperature"] = temperatures[number % len(temperatures)]
            if seed is not None:
                overrides["seed"] = seed + number
            with_overrides(SamplingParams(), overrides)
            specs.append(BranchSpec(model, overrides))
    return specs


class Compares:
    """What of the chat service puts answers side by side. Any thread.

    Invariant: a compare and all its first turns are saved in one transaction, or nothing is.
    """

    def __init__(
        self,
        *,
        store: Store,
        live: LiveTurns,
        models: Models,
        runner: TurnRunner,
        intake: threading.Lock,
        submit: Callable[[Write], Future[None]],
        sampling: SamplingParams,
        transcript: Callable[[str], Sequence[Exchange]],
    ) -> None:
        self._store = store
        self._live = live
        self._models = models
        self._runner = runner
        self._intake = intake
        self._submit = submit
        self._sampling = sampling
        self._transcript = transcript

    def start(
        self,
        prompt: str,
        specs: Sequence[BranchSpec],
        *,
        from_chat: str = "",
        system: str = "",
        is_blind: bool = False,
    ) -> Comparison:
        """Have a prompt answered once for each spec, after what was said in `from_chat` so far.

        Returns at once. Raises ChatError, NotInHistory, and ModelNotFound before anything is saved.
        """
        prompt = storable(prompt)
        if not prompt.strip():
            raise ChatError("There is nothing to compare answers to.", hint="Write a prompt.")
        if not 1 <= len(specs) <= MAX_BRANCHES:
            raise BadParameter(f"A compare has 1 to {MAX_BRANCHES} answers, not {len(specs):,}.")
        for model in {spec.model for spec in specs}:
            self._models.find(model)
        with self._intake:
            origin, messages = self._beginning(from_chat, system)
            chats = [
                self._chat(origin, spec, _title(prompt, specs, number), from_chat)
                for number, spec in enumerate(specs)
            ]
            chat_ids = [chat.id for chat in chats]
            if is_blind:
                secrets.SystemRandom().shuffle(chat_ids)
            compare = Compare(
                new_id(),
                prompt,
                time.time(),
                tuple(chat_ids),
                from_chat=from_chat or None,
                parent_hash=origin.tip_hash,
                is_blind=is_blind,
            )
            self._begin(compare, chats, [spec.overrides.get("seed") for spec in specs], messages)
        return self.open(compare.id)

    def add(self, compare_id: str, like: str) -> Comparison:
        """Have the prompt answered once more as in the chat `like`, with another seed."""
        with self._intake:
            compare = self._store.compare(compare_id)
            if len(compare.chat_ids) >= MAX_BRANCHES:
                raise ChatError(f"A compare has at most {MAX_BRANCHES} answers.")
            model = self._store.chat(like)
            now = time.time()
            chat = replace(
                model,
                id=new_id(),
                title=f"{auto_title(compare.prompt)} · {len(compare.chat_ids) + 1}",
                tip_hash=compare.parent_hash,
                draft="",
                created_at=now,
                updated_at=now,
                deleted_at=None,
                archived_at=None,
                is_unread=False,
                is_hidden=True,
            )
            compare = replace(compare, chat_ids=(*compare.chat_ids, chat.id))
            self._begin(compare, [chat], [None], ())
        return self.open(compare_id)

    def open(self, compare_id: str) -> Comparison:
        """Return a compare with all that was answered so far. Raises NotInHistory."""
        compare = self._store.compare(compare_id)
        chats = [self._store.chat(chat_id) for chat_id in compare.chat_ids]
        lines = {chat.id: self._transcript(chat.id) for chat in chats if chat.deleted_at is None}
        return Comparison(
            compare,
            [Branch(chat, _since(compare, lines[chat.id])) for chat in chats if chat.id in lines],
            max((_num_before(compare, exchanges) for exchanges in lines.values()), default=0),
        )

    def of_chat(self, chat_id: str) -> Compare | None:
        """Return the compare that a chat is an answer of; None when it is in none."""
        return next((c for c in self._store.compares() if chat_id in c.chat_ids), None)

    def past(self) -> Sequence[Compare]:
        """Return every compare that was not deleted, the latest first."""
        return [compare for compare in self._store.compares() if compare.chat_ids]

    def delete(self, compare_id: str) -> None:
        """Delete a compare and what of it was not kept; kept answers stay in the list of chats."""
        with self._intake:
            compare = self._store.compare(compare_id)
            chats = [self._store.chat(chat_id) for chat_id in compare.chat_ids]
            doomed = [chat.id for chat in chats if chat.is_hidden]
            now = time.time()
            self._submit(
                Write(
                    chat_changes=[change_chat(chat_id, deleted_at=now) for chat_id in doomed],
                    compares=(replace(compare, chat_ids=()),),
                )
            )
            for live in [live for chat_id in doomed for live in self._live.of_chat(chat_id)]:
                self._runner.stop(live)

    def keep(self, chat_id: str, *, is_kept: bool = True) -> None:
        """Put a branch into the list of chats, or take it out again."""
        now = time.time()
        change = change_chat(chat_id, is_hidden=not is_kept)
        if is_kept:
            change = change_chat(chat_id, is_hidden=False, updated_at=now)
        self._submit(Write(chat_changes=(change,)))

    def vote(self, compare_id: str, chat_id: str) -> Compare:
        """Say which answer was the best, and end the blindness; a later vote replaces it."""
        compare = self._store.compare(compare_id)
        if chat_id not in compare.chat_ids:
            raise ChatError("That answer does not belong to the compare.")
        turns = [exchange.turn for exchange in self._transcript(chat_id) if exchange.turn]
        voted = replace(
            compare,
            is_blind=False,
            voted_chat=chat_id,
            voted_model=turns[-1].model if turns else None,
        )
        self._submit(Write(compares=(voted,)))
        return voted

    def set_blind(self, compare_id: str, is_blind: bool) -> Compare:
        """Hide which model is which, in an order that tells nothing, or tell it again."""
        compare = self._store.compare(compare_id)
        chat_ids = list(compare.chat_ids)
        if is_blind:
            secrets.SystemRandom().shuffle(chat_ids)
        compare = replace(compare, is_blind=is_blind, chat_ids=tuple(chat_ids))
        self._submit(Write(compares=(compare,)))
        return compare

    # inside

    def _beginning(self, from_chat: str, system: str) -> tuple[Chat, Sequence[Message]]:
        """Return the chat that all branches continue, and the messages that it lacks."""
        if from_chat:
            chat = self._store.chat(from_chat)
            if self._live.of_chat(from_chat):
                raise answer_is_running()
            return chat, ()
        root = make_message(None, "system", system) if system else None
        tip_hash = None if root is None else root.hash
        return Chat("", "", tip_hash, "", "", 0.0, 0.0), () if root is None else (root,)

    def _chat(self, origin: Chat, spec: BranchSpec, title: str, from_chat: str) -> Chat:
        own = {**unpack_overrides(origin.options), **spec.overrides}
        # a seed of the chat would make all answers the same, and later ones repeat the draws
        own.pop("seed", None)
        now = time.time()
        return replace(
            origin,
            id=new_id(),
            title=title,
            model=spec.model or origin.model,
            draft="",
            created_at=now,
            updated_at=now,
            deleted_at=None,
            archived_at=None,
            forked_from=from_chat or None,
            options=pack_overrides(own),
            is_unread=False,
            is_hidden=True,
        )

    def _begin(
        self,
        compare: Compare,
        chats: Sequence[Chat],
        seeds: Sequence[int | None],
        messages: Sequence[Message],
    ) -> None:
        lives = [
            self._live_turn(chat, compare.prompt, seed)
            for chat, seed in zip(chats, seeds, strict=True)
        ]
        for live in lives:
            self._live.add(live)
        saved = self._submit(
            Write(
                messages=messages,
                new_chats=chats,
                turns=[live.turn for live in lives],
                compares=(compare,),
            )
        )
        for live in lives:
            self._runner.begin(live, saved)

    def _live_turn(self, chat: Chat, prompt: str, seed: int | None) -> LiveTurn:
        sampling = with_overrides(self._sampling, unpack_overrides(chat.options))
        sampling = replace(sampling, seed=seed)
        return open_turn(chat, sampling, question=prompt, is_foreground=False)


def _title(prompt: str, specs: Sequence[BranchSpec], number: int) -> str:
    """Tell the branches apart where they are listed beside each other."""
    own = [spec for spec in specs[: number + 1] if spec.model == specs[number].model]
    has_models = len({spec.model for spec in specs}) > 1
    name = name_of(specs[number].model) if has_models else ""
    place = str(len(own)) if len(specs) > len({spec.model for spec in specs}) else ""
    mark = " ".join(part for part in (name, place) if part)
    return f"{auto_title(prompt)} · {mark}" if mark else auto_title(prompt)


def _num_before(compare: Compare, exchanges: Sequence[Exchange]) -> int:
    """Return how many messages but for the system text all branches had before."""
    before = exchanges[: len(exchanges) - len(_since(compare, exchanges))]
    return sum(e.message is not None and e.message.role != "system" for e in before)


def _since(compare: Compare, exchanges: Sequence[Exchange]) -> Sequence[Exchange]:
    """Return the lines that follow what all branches had before."""
    for place, exchange in enumerate(exchanges):
        if exchange.message is not None and exchange.message.hash == compare.parent_hash:
            return exchanges[place + 1 :]
    return [e for e in exchanges if e.message is None or e.message.role != "system"]
