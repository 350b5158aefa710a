"""Another question in the place of one: edited in the prompt, asked as a version of its own."""

from __future__ import annotations

import pytest

from testkit.fake_model import read_prompt
from testkit.going_back import answered, finish, lines, numbered, read
from testkit.screens import LARGE, open_service, stage
from testkit.sizes import SIZES

HOSTILE = "[bold]x[/] \x1b[31mred\x1b]0;t\x07 \u202eabc\u200b \ud83d end"


@SIZES
async def test_a_message_is_edited_as_a_branch(size):
    engine = numbered()
    with open_service(engine) as service:
        async with stage(service, engine, size=size) as shown:
            await answered(shown, "first", "second")
            await shown.write("half a thought")
            await read(shown, "k", "k", "e")
            assert shown.prompt.text == "second"
            assert shown.app.focused is shown.prompt
            assert "editing a message" in shown.text
            assert "Esc leaves it" in shown.text
            await shown.say(", better")
            assert shown.prompt.text == "half a thought"
            assert "editing a message" not in shown.text
            await finish(shown)
            assert lines(shown)[2:] == ["second, better", "answer 3 done really"]
            assert "‹2/2›" in shown.text
            *told, _ = read_prompt(engine.submitted[-1].prompt_ids)
            assert [text for _, text in told][-1] == "second, better"

            await read(shown, "k", "k", "[")
            assert lines(shown)[2:] == ["second", "answer 2 done really"]


async def test_an_edit_tells_what_it_reuses():
    engine = numbered()
    with open_service(engine) as service:
        async with stage(service, engine, size=LARGE) as shown:
            await answered(shown, "first", "second")
            before = shown.app.workspace.current.entries[1].usage
            last = shown.last_answer.usage
            tokens = [u.prompt_tokens + u.completion_tokens for u in (before, last)]
            await read(shown, "e")
            assert f"reuses {tokens[0]} of {tokens[1]} tokens" in shown.text


@pytest.mark.parametrize("leave", ["escape", "ctrl+c"])
async def test_an_edit_that_is_left_brings_the_draft_back(leave):
    engine = numbered()
    with open_service(engine) as service:
        async with stage(service, engine) as shown:
            await answered(shown, "first")
            await shown.write("draft")
            await read(shown, "e")
            await shown.write(" changed")
            await shown.press(leave)
            assert shown.prompt.text == "draft"
            assert "editing a message" not in shown.text
            assert lines(shown) == ["first", "answer 1 done really"]
            await shown.press("up")
            assert shown.prompt.text == "first changed"


async def test_an_edit_waits_while_another_chat_is_looked_at_and_is_no_draft():
    engine = numbered()
    with open_service(engine) as service:
        async with stage(service, engine, size=LARGE) as shown:
            await answered(shown, "first")
            await shown.write("draft")
            await read(shown, "e")
            await shown.write("!")
            await shown.press("ctrl+n")
            assert shown.prompt.text == ""
            assert "editing a message" not in shown.text
            await shown.press("alt+2")
            assert shown.prompt.text == "first!"
            assert "editing a message" in shown.text
            await shown.press("escape")
            assert shown.prompt.text == "draft"
            service._store.writer.flush()
            assert service.chats()[0].draft == "draft"


@pytest.mark.parametrize("end", ["enter", "escape"])
async def test_an_edit_that_is_not_sent_yet_survives_a_crash_beside_the_draft(end):
    engine = numbered()
    with open_service(engine) as service:
        async with stage(service, engine) as shown:
            await answered(shown, "first")
            await shown.write("draft")
            await read(shown, "e")
            shown.app.commands.drafts.keep()
            assert service.chats()[0].draft == "draft"
            await shown.write(" edited")
            shown.app.commands.drafts.keep()
            assert service.chats()[0].draft == "draft\nfirst edited"
            await shown.press(end)
            await finish(shown)
            assert service.chats()[0].draft == shown.prompt.text == "draft"


async def test_what_looks_like_a_command_is_edited_as_text():
    engine = numbered()
    with open_service(engine) as service:
        async with stage(service, engine) as shown:
            await shown.ask("//etc/hosts?")
            await shown.answer()
            await read(shown, "e")
            assert shown.prompt.text == "//etc/hosts?"
            await shown.press("enter")
            await finish(shown)
            assert lines(shown)[0] == "/etc/hosts?"


async def test_an_edit_that_is_refused_stays_in_the_prompt():
    engine = numbered()
    with open_service(engine) as service:
        async with stage(service, engine) as shown:
            await answered(shown, "first")
            await read(shown, "e")
            service.delete(shown.app.workspace.current.id)
            await shown.say("!")
            assert "is deleted" in shown.text
            assert shown.prompt.text == "first!"
            assert "editing a message" in shown.text


async def test_hostile_text_is_edited_exactly():
    engine = numbered()
    with open_service(engine) as service:
        async with stage(service, engine) as shown:
            await answered(shown, "q")
            chat = shown.app.workspace.current
            service.edit(chat.id, service.transcript(chat.id)[0].key, HOSTILE)
            await shown.until(lambda: len(engine.submitted) == 2)
            engine.run_until_idle()
            await shown.beat()
            shown.app.commands.branches.reshow(chat)
            text = lines(shown)[0]
            await read(shown, "e")
            assert shown.prompt.draft.full == text
            assert "\x1b" not in shown.text.replace("\n", "")
            await shown.press("enter")
            await finish(shown)
            assert lines(shown)[0] == text
            await shown.press("ctrl+f")
