"""The tree of forks in the list of chats, and what each chat takes of the engine's memory."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import NamedTuple

from localpaged.engine.snapshot import EngineSnapshot
from localpaged.tui.figures import grouped
from localpaged.tui.glyphs import Glyphs
from localpaged.tui.markdown.line import Role, Run
from localpaged.tui.session import SessionModel

# deeper forks are drawn as these: the list is narrow
MAX_SHOWN_DEPTH = 4


class Cost(NamedTuple):
    """KV blocks of a chat's requests: used by them alone, and shared with others."""

    own_blocks: int
    shared_blocks: int


NO_COSTS: Mapping[str, Cost] = MappingProxyType({})


def by_family(sessions: Iterable[SessionModel]) -> list[SessionModel]:
    """Put forks below the chats they came from; the family that was used last comes first.

    Sets `depth` and `family_used_at`. A fork whose origin is not listed stands for itself.
    """
    listed = list(sessions)
    known = {session.id for session in listed}
    forks: dict[str, list[SessionModel]] = defaultdict(list)
    roots: list[SessionModel] = []
    for session in listed:
        origin = session.chat.forked_from if session.chat is not None else None
        if origin in known:
            forks[origin].append(session)
        else:
            roots.append(session)
    families = [_family(root, forks) for root in roots]
    return [
        session for family in sorted(families, key=_used_at, reverse=True) for session in family
    ]


def _family(root: SessionModel, forks: Mapping[str, list[SessionModel]]) -> list[SessionModel]:
    """Return a chat and what was forked off it, each followed by its own forks."""
    family: list[SessionModel] = []
    rest = [(root, 0)]
    while rest:
        session, depth = rest.pop()
        session.depth = depth
        family.append(session)
        below = sorted(forks.get(session.id, ()), key=_made_at, reverse=True)
        rest += [(fork, depth + 1) for fork in below]
    used_at = max(_updated_at(session) for session in family)
    for session in family:
        session.family_used_at = used_at
    return family


def _used_at(family: list[SessionModel]) -> tuple[float, str]:
    return family[0].family_used_at, family[0].id


def _updated_at(session: SessionModel) -> float:
    return session.chat.updated_at if session.chat is not None else 0.0


def _made_at(session: SessionModel) -> tuple[float, str]:
    return (session.chat.created_at if session.chat is not None else 0.0), session.id


def fork_runs(session: SessionModel, glyphs: Glyphs) -> list[Run]:
    """What stands before the title of a fork."""
    if not session.depth:
        return []
    indent = " " * (min(session.depth, MAX_SHOWN_DEPTH) - 1)
    return [Run(f"{indent}{glyphs.fork} ", Role.FAINT)]


def costs_of(snapshot: EngineSnapshot) -> Mapping[str, Cost]:
    """Return what the requests of each chat take."""
    if not snapshot.sequences:
        return NO_COSTS
    costs: dict[str, Cost] = {}
    for view in snapshot.sequences:
        own, shared = costs.get(view.chat_id, Cost(0, 0))
        costs[view.chat_id] = Cost(own + view.own_blocks, shared + view.shared_blocks)
    return costs


def cost_text(session: SessionModel, cost: Cost) -> str:
    """Return the blocks of a chat; of a fork those that it has of its own."""
    if session.depth:
        return f"+{grouped(cost.own_blocks)}b"
    return f"{grouped(cost.own_blocks + cost.shared_blocks)}b"
