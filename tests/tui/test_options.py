"""A chat's own options: the dialog and the slash commands that change them."""

from __future__ import annotations

import pytest

from localpaged.chat.sampling_options import DRY_ON, unpack_overrides
from localpaged.plain_text import visible
from localpaged.tui.screens.confirm import ConfirmScreen
from localpaged.tui.screens.options import OptionsScreen
from localpaged.tui.screens.picker import PickerScreen
from testkit.fake_model import read_prompt
from testkit.screens import LARGE, open_service, stage
from testkit.scripted_engine import ScriptedEngine
from testkit.sizes import SIZES

HOSTILE = "[red]x[/] \x1b]0;t\x07 \u202eab\u200b {{j}}"


def own(service) -> dict[str, object]:
    (chat,) = service.chats()
    return unpack_overrides(chat.options)


def hello(request):
    return ("ok",)


@SIZES
async def test_the_dialog_shows_defaults_and_saves_what_is_written(size):
    engine = ScriptedEngine(hello)
    with open_service(engine) as service:
        async with stage(service, engine, size=size) as shown:
            await shown.ask("hi")
            await shown.answer()
            await shown.press("ctrl+o")
            assert isinstance(shown.dialog, OptionsScreen)
            for text in ("0.2  default", "0.9  default", "off  default", "fake-model  default"):
                assert text in shown.text
            await shown.press(*"0.7", "down", *"40", "enter")
            assert shown.dialog is None
            assert own(service) == {"temperature": 0.7, "top_k": 40}
            await shown.ask("again")
            await shown.answer()
            sampling = engine.submitted[-1].sampling
            assert (sampling.temperature, sampling.top_k, sampling.top_p) == (0.7, 40, 0.9)


@pytest.mark.parametrize("size", [(80, 24), (50, 14)])
async def test_what_is_told_below_the_fields_stays_in_view(size):
    engine = ScriptedEngine(hello)
    with open_service(engine) as service:
        async with stage(service, engine, size=size) as shown:
            await shown.press("ctrl+o", *"200")
            assert "Temperature" in shown.text
            assert "temperature must be from 0 to 100" in shown.text
            assert "Enter or ^S saves" in shown.text


async def test_the_dialog_shows_what_the_chat_has_and_takes_defaults_again():
    engine = ScriptedEngine(hello)
    with open_service(engine) as service:
        async with stage(service, engine) as shown:
            await shown.say("/set temp=1.5 dry=on seed=7")
            assert own(service) == {"temperature": 1.5, "dry": DRY_ON, "seed": 7}
            await shown.press("ctrl+o")
            assert "1.5 " in shown.text
            assert "0.2  default" not in shown.text
            await shown.press("ctrl+r")
            assert "0.2  default" in shown.text
            await shown.press("ctrl+s")
            assert own(service) == {}


async def test_a_value_may_stand_behind_its_name_with_a_blank_or_an_equals_sign():
    engine = ScriptedEngine(hello)
    with open_service(engine) as service:
        async with stage(service, engine) as shown:
            await shown.say("/set temperature 0.8 top_k=3 stop 'a b'")
            assert own(service) == {"temperature": 0.8, "top_k": 3, "stop": ("a b",)}
            await shown.say("/set top_k= seed -1")
            assert shown.prompt.text == "/set top_k= seed -1"


async def test_what_cannot_be_is_told_in_the_engines_words_and_not_saved():
    engine = ScriptedEngine(hello)
    with open_service(engine) as service:
        async with stage(service, engine) as shown:
            await shown.press("ctrl+o", *"200")
            assert "temperature must be from 0 to 100, not 200.0." in shown.text
            await shown.press("ctrl+s")
            assert isinstance(shown.dialog, OptionsScreen)
            assert shown.app.focused.id == "option-temperature"
            await shown.press("x")
            assert "temperature must be a number, not '200x'." in shown.text
            await shown.press("escape")
            assert shown.dialog is None
            assert service.chats() == []


async def test_the_system_prompt_has_several_lines_and_is_sent_and_shown():
    engine = ScriptedEngine(hello)
    with open_service(engine) as service:
        async with stage(service, engine) as shown:
            await shown.press("ctrl+o", "shift+tab")
            await shown.burst(*"Be brief.", "enter", *"Be kind.", "ctrl+s")
            assert "Be brief." in shown.text
            await shown.ask("hi")
            pairs = read_prompt(engine.submitted[-1].prompt_ids)
            assert pairs[0] == ("system", "Be brief.\nBe kind.")


async def test_the_price_of_another_system_prompt_is_told_first():
    engine = ScriptedEngine(hello)
    with open_service(engine) as service:
        async with stage(service, engine) as shown:
            await shown.ask("x" * 1_200)
            await shown.answer()
            await shown.press("ctrl+o", "shift+tab", "y")
            assert "1,204 tokens are read again" in shown.text
            await shown.press("escape")
            await shown.say("/system Be brief.")
            assert isinstance(shown.dialog, ConfirmScreen)
            assert "1,204 tokens of this chat are read again." in shown.text
            await shown.press("n")
            assert service.chats()[0].system is None
            await shown.say("/system Be brief.")
            await shown.press("y")
            assert service.chats()[0].system == "Be brief."
            assert "Be brief." in shown.text


async def test_options_survive_a_restart_and_stay_with_their_chat():
    engine = ScriptedEngine(hello)
    with open_service(engine) as service:
        async with stage(service, engine) as shown:
            await shown.say("/set top_k=3 stop='a b'")
            await shown.say("/system Be brief.")
    engine = ScriptedEngine(hello)
    with open_service(engine) as service:
        async with stage(service, engine) as shown:
            assert "Be brief." in shown.text
            await shown.ask("hi")
            await shown.answer()
            assert engine.submitted[-1].sampling.top_k == 3
            assert engine.submitted[-1].sampling.stop == ("a b",)
            await shown.press("ctrl+n")
            await shown.ask("hi")
            assert engine.submitted[-1].sampling.top_k == 0


REFUSED = [
    ("/set temprature=1", "Did you mean temperature?"),
    ("/set temp=hot", "temperature must be a number, not 'hot'."),
    ("/set temp", "'temp' sets nothing."),
    ("/set stop='a", "A quotation mark is not closed."),
    ("/seed -1", "seed must be a whole number from 0"),
    ("/seed [b]x", "seed must be a whole number, not '[b]x'."),
    ("/model [red]nix", "There is no model '[red]nix' here."),
    ("/quit now", "/quit takes no argument."),
]


async def test_a_command_that_cannot_be_comes_back_with_the_reason():
    engine = ScriptedEngine(hello)
    with open_service(engine) as service:
        async with stage(service, engine, size=LARGE) as shown:
            for typed, part in REFUSED:
                await shown.say(typed)
                await shown.until_shown(part)
                assert shown.prompt.text == typed
                shown.prompt.text = ""
                await shown.settle()


async def test_an_empty_value_and_a_random_seed_are_the_defaults_again():
    engine = ScriptedEngine(hello)
    with open_service(engine) as service:
        async with stage(service, engine) as shown:
            await shown.say("/set temp=1 seed=7")
            await shown.say("/set temp=")
            assert own(service) == {"seed": 7}
            await shown.say("/seed random")
            assert own(service) == {}


async def test_a_model_is_chosen_by_typing_a_part_of_its_name():
    engine = ScriptedEngine(hello)
    with open_service(engine) as service:
        async with stage(service, engine) as shown:
            await shown.say("/model")
            assert isinstance(shown.dialog, PickerScreen)
            assert "fake-model" in shown.text
            await shown.press("enter")
            assert shown.dialog is None
            assert service.chats()[0].model == ""


async def test_hostile_text_in_the_options_is_text():
    engine = ScriptedEngine(hello)
    with open_service(engine) as service:
        chat = service.new_chat(title=HOSTILE, system=HOSTILE)
        service.configure(chat.id, options={"stop": (HOSTILE,)}, model=HOSTILE)
        async with stage(service, engine) as shown:
            await shown.press("ctrl+o")
            for _ in range(5):
                assert visible(shown.text, multiline=True) == shown.text
                assert "[red]x[/]" in shown.text
                await shown.press("shift+tab")
            await shown.press("ctrl+s")
            (saved,) = service.chats()
            assert saved.system is None
            assert saved.model == HOSTILE
