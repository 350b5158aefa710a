"""Chats that chose a model: what is told while it loads, answers, or is gone."""

from __future__ import annotations

from localpaged.engine.params import Request
from localpaged.errors import NoRoom
from testkit.fake_shelf import FakeShelf
from testkit.screens import LARGE, open_service, stage
from testkit.scripted_engine import ScriptedEngine
from testkit.sizes import SIZES


def by_model(request: Request) -> list[str]:
    return [f"by {request.model or 'default'}"]


@SIZES
async def test_the_top_line_tells_which_model_answers_the_chat(size):
    engine = ScriptedEngine(by_model)
    engine.further.holds_back = True
    with open_service(engine, shelf=FakeShelf("fake-model", "other")) as service:
        async with stage(service, engine, size=size) as shown:
            assert "fake-model" in shown.text.splitlines()[0]
            await shown.say("/model other")
            await shown.beat()
            assert "other  not loaded yet" in shown.text.splitlines()[0]
            await shown.ask("question")
            await shown.step()
            assert "allocating KV" in shown.text and "other" in shown.text
            engine.further.holds_back = False
            await shown.answer()
            assert "by other" in shown.text
            assert "other  cpu" in shown.text.splitlines()[0]
            await shown.press("ctrl+n")
            await shown.beat()
            assert "fake-model  cpu" in shown.text.splitlines()[0]


@SIZES
async def test_a_model_that_does_not_fit_is_told_in_the_chat_that_wanted_it(size):
    engine = ScriptedEngine(by_model)
    engine.further.load_errors["other"] = NoRoom("other needs 4.50 GiB; 4.00 GiB are free.")
    with open_service(engine, shelf=FakeShelf("fake-model", "other")) as service:
        async with stage(service, engine, size=size) as shown:
            await shown.say("/model other")
            await shown.ask("question")
            await shown.answer()
            assert "other needs 4.50 GiB; 4.00 GiB are free." in shown.text
            assert shown.app.workspace.engine.failure is None
            await shown.press("ctrl+n")
            await shown.ask("question")
            await shown.answer()
            assert "by default" in shown.text


async def test_a_model_that_is_gone_is_told_and_the_default_answers():
    engine = ScriptedEngine(by_model)
    shelf = FakeShelf("fake-model", "other")
    with open_service(engine, shelf=shelf) as service:
        async with stage(service, engine, size=LARGE) as shown:
            await shown.say("/model other")
            shelf.names.remove("other")
            await shown.ask("question")
            await shown.until_shown("other is not here any more; fake-model answers.")
            await shown.answer()
            assert "by default" in shown.text


async def test_a_model_is_loaded_and_unloaded_by_command():
    engine = ScriptedEngine(by_model)
    with open_service(engine, shelf=FakeShelf("fake-model", "other")) as service:
        async with stage(service, engine, size=LARGE) as shown:

            async def command(text: str) -> None:
                shown.prompt.clear()  # what was refused is given back
                await shown.say(text)
                await shown.step()

            await command("/load other")
            await shown.until(lambda: [m.name for m in service.models() if m.is_loaded][1:] != [])
            await command("/unload other")
            await shown.until(lambda: "other" not in engine.further.loaded)
            assert "other is unloaded" in shown.text
            await command("/unload other")
            assert "other is not loaded." in shown.text
            await command("/unload")
            assert "No further model is loaded." in shown.text
            await command("/load")
            await shown.press("enter")  # the only one
            await shown.step()
            await shown.until(lambda: "other" in engine.further.loaded)
            await command("/unload fake-model")
            assert "The model that chats begin with stays loaded." in shown.text
            await command("/load nix")
            assert "There is no model 'nix' here." in shown.text
