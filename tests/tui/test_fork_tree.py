"""The list of chats is the tree of forks, cheap to draw and safe to read."""

from __future__ import annotations

from textual.geometry import Region

from localpaged.engine.snapshot import EngineSnapshot, SequenceView
from localpaged.store.rows import Chat
from localpaged.tui.fork_tree import Cost, by_family, cost_text, costs_of, fork_runs
from localpaged.tui.glyphs import ASCII, UNICODE
from localpaged.tui.session import SessionModel
from testkit.screens import LARGE, open_service, screen_lines, stage
from testkit.scripted_engine import ScriptedEngine

HOSTILE = "[bold]x[/] \x1b[31mred\x1b]0;t\x07 \u202eabc\u200b end"


def session(chat_id: str, *, used: float, made: float = 0.0, origin: str | None = None):
    chat = Chat(chat_id, chat_id, None, "", "", made or used, used, forked_from=origin)
    return SessionModel(chat)


def names(sessions) -> list[tuple[str, int]]:
    return [(s.id, s.depth) for s in sessions]


def test_forks_stand_below_their_origin_in_the_order_they_were_made():
    sessions = [
        session("late fork", used=9, made=3, origin="a"),
        session("b", used=8),
        session("early fork", used=7, made=2, origin="a"),
        session("fork of fork", used=6, made=4, origin="early fork"),
        session("a", used=1),
    ]
    assert names(by_family(sessions)) == [
        ("a", 0),
        ("early fork", 1),
        ("fork of fork", 2),
        ("late fork", 1),
        ("b", 0),
    ]


def test_a_family_stands_where_its_latest_member_would():
    family = [session("a", used=1), session("fork", used=5, origin="a"), session("b", used=3)]
    ordered = by_family(family)
    assert [s.id for s in ordered] == ["a", "fork", "b"]
    assert [s.family_used_at for s in ordered] == [5, 5, 3]


def test_a_fork_whose_origin_is_not_listed_stands_for_itself():
    assert names(by_family([session("fork", used=1, origin="gone")])) == [("fork", 0)]


def test_what_came_back_into_a_family_leaves_its_old_depth():
    fork = session("fork", used=2, origin="a")
    by_family([fork, session("a", used=1)])
    assert fork.depth == 1
    by_family([fork])
    assert fork.depth == 0


def test_a_thousand_chats_in_a_chain_are_no_trouble():
    chain = [session("0", used=1)]
    chain += [session(str(n), used=1, made=n, origin=str(n - 1)) for n in range(1, 1_000)]
    ordered = by_family(chain)
    assert [s.depth for s in ordered] == list(range(1_000))
    cells = [len("".join(run.text for run in fork_runs(s, UNICODE))) for s in ordered]
    assert max(cells) <= 6


def view(chat_id: str, *, own: int, shared: int) -> SequenceView:
    return SequenceView("r", chat_id, "decode", None, 1, 1, shared_blocks=shared, own_blocks=own)


def test_a_chat_costs_the_blocks_of_all_its_requests_a_fork_its_own():
    snapshot = EngineSnapshot(sequences=(view("a", own=2, shared=3), view("a", own=1, shared=1)))
    costs = costs_of(snapshot)
    assert costs == {"a": Cost(3, 4)}
    chat = session("a", used=1)
    assert cost_text(chat, costs["a"]) == "7b"
    chat.depth = 1
    assert cost_text(chat, costs["a"]) == "+3b"


async def test_hostile_titles_of_forks_are_text_and_fit():
    engine = ScriptedEngine(lambda request: ("ok",))
    with open_service(engine) as service:
        async with stage(service, engine, size=LARGE) as shown:
            await shown.ask(HOSTILE)
            await shown.answer()
            for _ in range(6):
                await shown.press("ctrl+f")
            width = shown.sidebar.size.width
            rows = [line[:width] for line in screen_lines(shown.app)]
            forks = [row for row in rows if UNICODE.fork in row]
            assert len(forks) == 6
            assert all("[bold]x" in row for row in forks)
            assert "\x1b" not in shown.text.replace("\n", "")
            assert "\u202e" not in shown.text


async def test_rows_that_look_as_before_are_not_painted_again():
    engine = ScriptedEngine(lambda request: tuple("abcdefgh" * 20))
    with open_service(engine) as service:
        async with stage(service, engine, size=LARGE, glyphs=ASCII) as shown:
            await shown.ask("one")
            await shown.answer()
            await shown.press("ctrl+f")
            await shown.ask("two")
            await shown.step(2)
            painted: list[Region] = []
            refresh = shown.sidebar.refresh
            shown.sidebar.refresh = lambda *regions, **options: (
                painted.extend(regions),
                refresh(*regions, **options),
            )[1]
            await shown.step(3)
            # the row of the chat that runs, and no other
            assert len({region.y for region in painted}) == 1
            await shown.answer()


async def test_a_chat_that_is_in_memory_shows_its_blocks_when_it_does_not_run():
    engine = ScriptedEngine(lambda request: tuple("abcdefgh" * 9))
    with open_service(engine) as service:
        async with stage(service, engine, size=LARGE) as shown:
            await shown.ask("a question that fills some blocks of the memory, and more than one")
            await shown.answer()
            await shown.until(lambda: shown.app.chat.costs.of(EngineSnapshot()) != {})
            await shown.beat()
            chat = shown.app.workspace.current
            (own, shared) = shown.app.chat.costs.of(EngineSnapshot())[chat.id]
            assert f" {own + shared}b" in shown.text

            looks = engine.num_inspections
            for _ in range(5):
                await shown.beat()
            assert engine.num_inspections == looks

            await shown.press("ctrl+f")
            await shown.ask("its own way")
            await shown.answer()
            fork = shown.app.workspace.current
            await shown.until(lambda: fork.id in shown.app.chat.costs.of(EngineSnapshot()))
            await shown.beat()
            cost = shown.app.chat.costs.of(EngineSnapshot())[fork.id]
            assert cost.shared_blocks > 0
            assert f"+{cost.own_blocks}b" in shown.text


async def test_the_program_begins_with_the_chat_that_was_used_last_be_it_a_fork():
    engine = ScriptedEngine()
    with open_service(engine) as service:
        async with stage(service, engine) as shown:
            await shown.ask("one")
            await shown.answer()
            await shown.press("ctrl+f")
            await shown.ask("in the fork")
            await shown.answer()
            fork = shown.app.workspace.current.id
    engine = ScriptedEngine()
    with open_service(engine) as service:
        async with stage(service, engine) as shown:
            assert shown.app.workspace.current.id == fork
            assert "in the fork" in shown.text
            assert [session.depth for session in shown.app.workspace.sessions] == [0, 1]


async def test_where_chats_are_chosen_forks_are_told_from_their_origin():
    engine = ScriptedEngine()
    with open_service(engine) as service:
        async with stage(service, engine) as shown:
            await shown.ask("one")
            await shown.answer()
            await shown.press("ctrl+f", "ctrl+s")
            rows = [line.strip() for line in shown.text.split("\n")]
            assert any(row.startswith("one") for row in rows)
            assert any(row.startswith("↳ one") for row in rows)
            await shown.press(*"one", "escape")
            assert shown.dialog is None
