"""Answers side by side on the compare screen, over the real service and a scripted engine."""

from __future__ import annotations

from localpaged.engine.params import Request
from localpaged.errors import StepFailed
from localpaged.store.rows import TurnStatus
from localpaged.tui.screens.compare import CompareScreen
from localpaged.tui.widgets.compare_pane import ComparePane
from testkit.comparing import by_seed, comparing, finish, heads, submitted, texts
from testkit.fake_model import read_prompt
from testkit.fake_shelf import FakeShelf
from testkit.screens import LARGE, SMALL, open_service, stage
from testkit.scripted_engine import Answer, ScriptedEngine
from testkit.sizes import SIZES

HOSTILE = "[b]x[/b] \x1b[31mred\x1b[0m \x1b]52;c;aGk=\x07 a\u202eb\u200bc \udcff \x9b5n end"


@SIZES
async def test_two_answers_stand_side_by_side_as_they_grow(size):
    async with comparing("Why [is] the sky blue?", size=size) as (shown, screen):
        await shown.step(2)
        assert "compare  Why [is] the sky blue?" in shown.text
        assert "1 fake-model" in shown.text and "2 fake-model" in shown.text
        assert "2 answers" in shown.text
        assert "default-0" in shown.text
        await finish(shown, screen)
        assert "13 tok" in shown.text
        assert "complete" in shown.text
        assert "own blocks" in shown.text
        assert shown.prompt.text == ""
        first, second = texts(screen)
        assert first != second


@SIZES
async def test_four_answers_get_a_grid_or_tabs_and_a_zoom(size):
    async with comparing("/compare n=2 m=fake-model,other t=0.2,1 Sky?", size=size) as (
        shown,
        screen,
    ):
        await finish(shown, screen)
        num_shown = 4 if size == LARGE else 1
        assert len(screen.shown) == num_shown
        assert ("3 other" in shown.text) is True
        await shown.press("3")
        assert screen.shown[-1 if size == SMALL else 2] is screen.model.current
        assert "other-11" in shown.text
        await shown.press("z")
        assert [pane.chat.model for pane in screen.shown] == ["other"]
        await shown.press("left")
        assert screen.shown == [screen.model.panes[1]]
        await shown.press("z")
        assert len(screen.shown) == num_shown


async def test_many_panes_are_drawn_one_by_one_and_each_to_its_end(monkeypatch):
    drawn, in_a_beat = [], []
    show_text, beat = ComparePane.show_text, CompareScreen.beat

    def noting(pane, moment):
        drawn.append(pane)
        show_text(pane, moment)

    def counting(screen, *told):
        before = len(drawn)
        is_moving = beat(screen, *told)
        in_a_beat.append(len(drawn) - before)
        return is_moving

    async with comparing("/compare n=8 Sky?", size=(340, 60)) as (shown, screen):
        assert len(screen.shown) == 8
        monkeypatch.setattr(ComparePane, "show_text", noting)
        monkeypatch.setattr(CompareScreen, "beat", counting)
        await finish(shown, screen)
        await shown.until(lambda: shown.text.count("default-11") == 8)
        await shown.until(lambda: shown.text.count("complete") == 8)
    # a key that comes need not wait for more
    assert max(in_a_beat) == 1 and len(set(drawn)) == 8


async def test_hidden_panes_are_not_drawn_and_have_everything_when_they_are_shown():
    async with comparing("/compare n=4 Sky?", size=SMALL) as (shown, screen):
        await shown.step(6)
        widgets = list(screen.query(ComparePane))
        assert [widget.display for widget in widgets] == [True, False, False, False]
        assert widgets[2].view.document.session.entries == []
        await finish(shown, screen)
        await shown.press("3")
        await shown.until_shown("default-11")
        assert widgets[2].view.document.session is screen.model.panes[2].session


async def test_the_losers_are_stopped_and_the_winner_goes_on():
    async with comparing("/compare n=3 Sky?") as (shown, screen):
        await shown.step(4)
        await shown.press("2", "s")
        await finish(shown, screen)
        statuses = [pane.last.status for pane in screen.model.panes if pane.last]
        assert statuses == [TurnStatus.STOPPED, TurnStatus.DONE, TurnStatus.STOPPED]
        assert shown.text.count("stopped") == 2
        await shown.press("1", "f5")
        await submitted(shown, 4)
        await finish(shown, screen)
        assert screen.model.panes[0].last is not None
        assert screen.model.panes[0].last.status is TurnStatus.DONE


async def test_escape_stops_the_selected_answer_then_leaves_and_the_others_go_on():
    async with comparing("/compare n=2 Sky?") as (shown, screen):
        await shown.step(3)
        await shown.press("escape")
        await shown.step()
        await shown.until_shown("stopped")
        assert screen.model.panes[0].last is not None
        assert screen.model.panes[0].last.status is TurnStatus.STOPPED
        assert screen.model.panes[1].last is not None and screen.model.panes[1].last.is_open
        await shown.press("escape")
        assert shown.dialog is None
        assert "1 other chat generating" in shown.text
        assert len(shown.app.workspace.running) == 1
        await shown.answer()
        assert shown.app.workspace._watched == {}
        await shown.say("/compares")
        assert "Sky?" in shown.text and "2 answers" in shown.text
        await shown.press("enter")
        again = shown.app.screen
        assert isinstance(again, CompareScreen)
        assert texts(again)[1].endswith("default-11 ")


async def test_the_winner_is_kept_and_goes_on_as_a_chat():
    async with comparing("/compare m=fake-model,other Sky?") as (shown, screen):
        await finish(shown, screen)
        assert shown.app.workspace.sessions == []
        await shown.press("right", "enter")
        assert shown.dialog is None
        current = shown.app.workspace.current
        assert current.chat is not None and current.chat.model == "other"
        assert "❯ Sky?" in shown.text and "other-11" in shown.text
        assert [session.id for session in shown.app.workspace.sessions] == [current.id]
        await shown.ask("and why?")
        assert shown.engine.submitted[-1].model == "other"
        assert len(read_prompt(shown.engine.submitted[-1].prompt_ids)) == 4


async def test_a_follow_up_goes_to_the_kept_answers_alone():
    async with comparing("/compare n=3 Sky?") as (shown, screen):
        await finish(shown, screen)
        assert "go on with all 3 answers" in shown.text
        await shown.press("k", "3", "k")
        assert "go on with both kept answers" in shown.text
        await shown.press("i")
        await shown.press(*"shorter please".replace(" ", "~").split("~")[0], "enter")
        await submitted(shown, 5)
        await finish(shown, screen)
        assert [len(pane.session.entries) for pane in screen.model.panes] == [3, 1, 3]
        assert shown.text.count("❯ shorter") == 2
        await shown.press("escape", "K", "q")
        assert len(shown.app.workspace.sessions) == 3
        # what was said there is in the chats
        kept = [s for s in shown.app.workspace.sessions if s.id == screen.model.panes[0].chat.id]
        shown.app.commands.chats.go_to(kept[0])
        await shown.settle()
        assert "❯ shorter" in shown.text


async def test_a_compare_from_a_chat_goes_on_from_what_was_said():
    async with comparing("/compare n=2 and then?", before="first") as (shown, screen):
        await shown.until(lambda: len(shown.engine.submitted) == 3)
        await finish(shown, screen)
        roles = [role for role, _ in read_prompt(shown.engine.submitted[-1].prompt_ids)]
        assert roles == ["user", "assistant", "user", "assistant"]
        assert "❯ first" not in shown.text
        assert "compare  after 2 messages of the chat  and then?" in shown.text
        await shown.resize(*SMALL)
        assert "compare  after 2 messages  and then?" in shown.text
        await shown.press("q")
        assert "❯ first" in shown.text and "and then?" not in shown.text


async def test_names_are_hidden_until_a_vote_that_is_saved():
    async with comparing("/compare n=1 m=fake-model,other blind Sky?") as (shown, screen):
        script_words = {"fake-model": "default-11", "": "default-11", "other": "other-11"}
        await finish(shown, screen)
        assert heads(screen) == ["1 answer 1", "2 answer 2"]
        assert "tok/s" not in shown.text
        await shown.press("2", "v")
        model = screen.model.panes[1].chat.model
        assert script_words[model] in texts(screen)[1]
        assert heads(screen)[1].split() == ["2", model, "t=0.2", "best"]
        saved = shown.service.compares.open(screen.model.compare.id).compare
        assert (saved.voted_chat, saved.voted_model) == (screen.model.panes[1].chat.id, model)
        await shown.press("b")
        assert [head.split()[1] for head in heads(screen)] == ["answer", "answer"]
        await shown.press("b")
        assert {head.split()[1] for head in heads(screen)} == {"fake-model", "other"}


async def test_an_answer_is_made_anew_and_one_more_is_asked_for():
    async with comparing("/compare n=2 t=0.3 Sky?") as (shown, screen):
        await finish(shown, screen)
        before = texts(screen)
        await shown.press("r")
        await submitted(shown, 3)
        await finish(shown, screen)
        assert texts(screen)[0] != before[0] and texts(screen)[1] == before[1]
        await shown.press("n")
        await submitted(shown, 4)
        assert len(screen.model.panes) == 3
        assert screen.model.current is screen.model.panes[2]
        await finish(shown, screen)
        assert "3 fake-model  t=0.3" in shown.text
        assert {request.sampling.temperature for request in shown.engine.submitted} == {0.3}


@SIZES
async def test_text_that_acts_on_terminals_is_shown_as_marks(size):
    script = lambda request: [HOSTILE, " and more"]  # noqa: E731
    async with comparing(f"/compare n=2 {HOSTILE}", size=size, script=script) as (shown, screen):
        await finish(shown, screen)
        await shown.press("r")
        await submitted(shown, 3)
        await finish(shown, screen)
        assert "[b]x[/b]" in shown.text
        for text in (shown.text, *(title.title for title in shown.app.workspace.sessions)):
            assert "\x1b" not in text and "\u202e" not in text and "\x9b" not in text
        await shown.press("i")
        screen.prompt.insert(HOSTILE)
        await shown.settle()
        assert "\x1b" not in shown.text
        await shown.press("enter")
        await submitted(shown, 5)
        await finish(shown, screen)
        assert "\x1b" not in shown.text


async def test_a_compare_is_deleted_after_a_question_and_what_is_kept_stays():
    async with comparing("/compare n=2 Sky?", size=SMALL) as (shown, screen):
        await finish(shown, screen)
        await shown.press("k", "x")
        assert "Delete this compare?" in shown.text and "1 answer is deleted" in shown.text
        await shown.press("escape")
        assert shown.app.screen is screen
        await shown.press("x", "tab", "enter")
        await shown.until(lambda: shown.dialog is None)
        assert shown.service.compares.past() == []
        assert [chat.id for chat in shown.service.chats()] == [screen.model.panes[0].chat.id]


async def test_a_model_may_be_called_anything():
    name = "([sys:LOCK=SAFE\u2026])[data:m?id=7-]\x1b[31m\u202e[/b]"
    engine = ScriptedEngine(by_seed)
    with open_service(engine, shelf=FakeShelf("fake-model", name)) as service:
        async with stage(service, engine, size=LARGE) as shown:
            assert shown.app.commands.compare.ask(f"m=fake-model,{name} Sky?")
            await shown.settle()
            screen = shown.app.screen
            assert isinstance(screen, CompareScreen)
            await submitted(shown, 2)
            await finish(shown, screen)
            await shown.press("2", "z", "v", "d")
            assert "([sys:LOCK=SAFE\u2026])[data:m?id=7-]" in shown.text
            assert "\x1b" not in shown.text and "\u202e" not in shown.text
            await shown.press("escape", "enter")
            assert "([sys:LOCK=SAFE\u2026])" in shown.text.splitlines()[0]
            assert "\x1b" not in shown.text


async def test_what_cannot_be_asked_is_told_and_stays_in_the_prompt():
    engine = ScriptedEngine()
    with open_service(engine, shelf=FakeShelf("fake-model")) as service:
        async with stage(service, engine) as shown:
            for command, told in (
                ("/compare n=40 Sky?", "not 40"),
                ("/compare n=x Sky?", "whole number"),
                ("/compare t=hot Sky?", "must be numbers"),
                ("/compare m=nobody Sky?", "nobody"),
                ("/compare n=2", "nothing to compare"),
            ):
                shown.prompt.text = command
                await shown.press("enter")
                await shown.until_shown(told)
                assert shown.prompt.text == command
                assert shown.dialog is None
            shown.prompt.text = ""
            await shown.press("ctrl+l")
            assert shown.prompt.text == "/compare n=2 "
            await shown.until_shown("Write your prompt after it.")
            shown.prompt.text = "/compares"
            await shown.press("enter")
            await shown.until_shown("no compare yet")
            assert service.chats() == []


@SIZES
async def test_an_answer_that_fails_tells_why_in_its_pane_and_can_be_asked_for_again(size):
    def script(request: Request) -> Answer | list[str]:
        if request.model:
            return Answer(("Half",), error=StepFailed("The [step] failed.", hint="Try again."))
        return by_seed(request)

    async with comparing("/compare m=fake-model,other Sky?", size=size, script=script) as (
        shown,
        screen,
    ):
        await finish(shown, screen)
        assert "Half" in shown.text and "The [step] failed." in shown.text
        assert "! failed" in shown.text
        assert texts(screen)[0].endswith("default-11 ")
        await shown.press("2", "r")
        await submitted(shown, 3)
        await finish(shown, screen)
        assert shown.text.count("! failed") == 1


async def test_every_key_is_told_and_answers_are_copied():
    async with comparing("/compare n=2 Sky?") as (shown, screen):
        await finish(shown, screen)
        await shown.press("f1")
        assert "Vote for the answer" in shown.text
        await shown.press("f1")
        assert shown.app.screen is screen
        await shown.press("y")
        await shown.until_shown("Copied the answer")
        await shown.press("S")
        await shown.press("ctrl+c")
        assert shown.dialog is None


async def test_a_model_that_loads_tells_how_far_it_is_in_its_pane():
    engine = ScriptedEngine(by_seed)
    engine.further.holds_back = True
    with open_service(engine, shelf=FakeShelf("fake-model", "other")) as service:
        async with stage(service, engine, size=LARGE) as shown:
            await shown.say("/compare m=fake-model,other Sky?")
            await submitted(shown, 2)
            await shown.step()
            assert "loading: allocating KV 100 %" in shown.text
            engine.further.holds_back = False
            screen = shown.app.screen
            assert isinstance(screen, CompareScreen)
            await finish(shown, screen)
            assert "other-11" in shown.text
            assert "own block, no other answer of its model" in shown.text


async def test_the_page_of_keys_tells_how_it_closes_on_a_small_screen():
    async with comparing("/compare n=2 Sky?", size=SMALL) as (shown, _):
        await shown.press("f1")
        assert "Left Right" in shown.text and "Esc closes" in shown.text
