"""The blocks screen: map, prefix tree, details; what pinning and evicting do; hostile text."""

from __future__ import annotations

from rich.style import Style
from textual.style import Style as TextualStyle

from localpaged.errors import LocalPagedError
from localpaged.tui.glyphs import ASCII
from localpaged.tui.memory.palette import Palette, rich_colour, textual_colour
from localpaged.tui.memory.views import ChatColours, View, picture
from localpaged.tui.theme import ANSI, LIGHT, PLAIN
from testkit.fake_model import piece_id
from testkit.memory_screen import SYSTEM, fill, ids, look, open_blocks
from testkit.screens import LARGE, SMALL, open_service, stage
from testkit.scripted_engine import ScriptedEngine
from testkit.sizes import SIZES

HOSTILE = "\x1b[31m[b]$x[/b]\u202eevil\u200b\n"


@SIZES
async def test_the_map_tells_shares_chats_and_what_sharing_saves(size):
    engine = ScriptedEngine(total_blocks=64)
    with open_service(engine) as service:
        fill(service, engine)
        async with stage(service, engine, size=size) as shown:
            await open_blocks(shown)
            text = shown.text
            assert "64 blocks" in text and "22.5 MiB" in text
            assert "active 0 % · pinned 0 % · cached 22 % · free 78 %" in text
            assert "6 blocks (2.1 MiB)" in text and "copies 0" in text
            assert "several chats" in text and "█ Venice" in text and "█ Mainz" in text
            assert "Block 0" in text
            await shown.until_shown("“You are a carefu”")
            assert "tokens 0 to 15" in shown.text
            await shown.press("escape")
            assert shown.dialog is None


async def test_a_large_screen_has_map_and_tree_a_small_one_one_of_them():
    engine = ScriptedEngine(total_blocks=64)
    with open_service(engine) as service:
        fill(service, engine)
        async with stage(service, engine, size=LARGE) as shown:
            await open_blocks(shown)
            assert "2 chats" in shown.text and "by chat" in shown.text
            assert "saves 6" in shown.text and "×2" in shown.text
            await shown.resize(*SMALL)
            assert "2 chats" not in shown.text and "by chat" in shown.text
            await shown.press("tab")
            assert "2 chats" in shown.text and "█ Mainz" not in shown.text
            await shown.press("tab")
            assert "2 chats" not in shown.text


async def test_a_key_cycles_the_views_and_the_legend_follows():
    engine = ScriptedEngine(total_blocks=64)
    with open_service(engine) as service:
        chat, _ = fill(service, engine)
        engine.hold(chat, (*SYSTEM, *ids("books of Venice "), *ids("more ", 16)))
        async with stage(service, engine, size=SMALL) as shown:
            await open_blocks(shown)
            for words in (("1", "cached, nobody"), ("now",), ("in use", "cached", "free")):
                await shown.press("m")
                assert all(word in shown.text for word in words)
            await shown.press("m")
            assert "█ Mainz" in shown.text


async def test_the_cursor_moves_over_blocks_and_shows_their_text():
    engine = ScriptedEngine(total_blocks=64)
    with open_service(engine) as service:
        fill(service, engine)
        async with stage(service, engine, size=SMALL) as shown:
            screen = await open_blocks(shown)
            await shown.press("right", "right", "l", "h")
            await shown.until_shown("tokens 32 to 47")
            assert screen.block_map.cursor == 2
            await shown.press("end")
            await shown.until_shown("Block 63")
            assert "free" in shown.text
            await shown.press("home", "down")
            assert screen.block_map.cursor == screen.block_map._layout.columns
            await shown.press("up", "up", "left")
            assert screen.block_map.cursor == 0


async def test_a_pin_without_room_is_refused_with_numbers():
    engine = ScriptedEngine(total_blocks=16)
    engine.reserved_blocks = 12
    with open_service(engine) as service:
        fill(service, engine)
        async with stage(service, engine, size=LARGE) as shown:
            await open_blocks(shown)
            await shown.press("p")
            await shown.until_shown("one full context needs 12")


async def test_enter_goes_to_the_chat_of_a_branch_or_asks_which():
    engine = ScriptedEngine(total_blocks=64)
    with open_service(engine) as service:
        fill(service, engine)
        async with stage(service, engine, size=LARGE) as shown:
            await open_blocks(shown)
            await shown.press("tab", "down", "enter")
            await shown.until(lambda: shown.dialog is None)
            assert shown.app.workspace.current.title == "Venice"
            await open_blocks(shown)
            await shown.press("enter")
            await shown.until_shown("Go to a chat")
            await shown.press(*"Mainz", "enter")
            await shown.until(lambda: shown.dialog is None)
            assert shown.app.workspace.current.title == "Mainz"


async def test_without_a_model_the_screen_says_so():
    engine = ScriptedEngine()
    with open_service(engine) as service:
        async with stage(service, engine, is_loaded=False) as shown:
            await shown.press("f3")
            await shown.beat()
            assert "still loading" in shown.text
            await shown.press("p", "x", "enter", "m", "tab", "right", "o")
            engine.fail(LocalPagedError("The file is cut."))
            await shown.beat()
            await shown.until_shown("There is no model")
            assert engine.num_inspections == 0
            # keys that do nothing here are not told
            assert shown.text.split("\n")[-1].strip() == "Esc back   F1 help"


async def test_nobody_looks_while_the_screen_is_not_shown():
    engine = ScriptedEngine()
    with open_service(engine) as service:
        async with stage(service, engine) as shown:
            await shown.beat()
            assert engine.num_inspections == 0
            await open_blocks(shown)
            await shown.press("escape")
            before = engine.num_inspections
            for _ in range(3):
                await shown.beat()
            assert engine.num_inspections == before


async def test_a_look_that_finds_nothing_new_paints_nothing():
    engine = ScriptedEngine(total_blocks=256)
    with open_service(engine) as service:
        chat, _ = fill(service, engine)
        async with stage(service, engine, size=SMALL) as shown:
            screen = await open_blocks(shown)
            await look(shown)
            painted = screen.block_map.num_painted
            await look(shown)
            assert screen.block_map.num_painted == painted
            engine.remember(chat, (*SYSTEM, *ids("another ending! ", 16)))
            await look(shown)
            assert 1 <= screen.block_map.num_painted - painted <= 2


async def test_a_pool_that_does_not_fit_has_many_blocks_in_a_cell():
    engine = ScriptedEngine(total_blocks=32_768)
    with open_service(engine) as service:
        fill(service, engine)
        async with stage(service, engine, size=SMALL) as shown:
            screen = await open_blocks(shown)
            assert screen.block_map.per_cell >= 16
            assert "in one cell: 0 to" in shown.text
            await shown.press("right")
            assert screen.block_map.cursor == screen.block_map.per_cell


async def test_letters_stand_for_colours_on_ascii_terminals():
    engine = ScriptedEngine(total_blocks=64)
    with open_service(engine) as service:
        fill(service, engine)
        async with stage(service, engine, size=LARGE, glyphs=ASCII) as shown:
            await open_blocks(shown)
            row = next(line for line in shown.text.splitlines() if " 0 " in line and "*" in line)
            assert "".join(row.split()).startswith("0" + "*" * 6)
            assert "a Venice" in shown.text and "b Mainz" in shown.text
            assert not set("▀█├└×❯“”…") & set(shown.text)
            await shown.press("f1")
            assert "In the blocks screen" in shown.text and "Map or prefix tree" in shown.text


async def test_hostile_titles_and_texts_stay_text():
    engine = ScriptedEngine(total_blocks=64)
    with open_service(engine) as service:
        chat = service.new_chat(title=HOSTILE).id
        engine.remember(chat, (*(piece_id(HOSTILE) for _ in range(40)), 7))
        async with stage(service, engine, size=LARGE) as shown:
            await open_blocks(shown)
            for size in (LARGE, SMALL, SMALL):
                await shown.resize(*size)
                assert not set("\x1b\u202e\u200b") & set(shown.text)
                assert "[b]$x[/b]" in shown.text
                await shown.press("tab")


def test_every_class_has_a_colour_in_every_palette():
    seen = ScriptedEngine().inspect().result()
    swatches = {s for view in View for s in picture(seen, view, ChatColours(), str).swatches}
    for palette in Palette:
        for paint in ("cursor", *(swatch.paint for swatch in swatches)):
            Style(color=rich_colour(paint, palette))
            TextualStyle.parse(textual_colour(paint, palette))


async def test_the_map_follows_the_theme():
    engine = ScriptedEngine(total_blocks=64)
    with open_service(engine) as service:
        fill(service, engine)
        async with stage(service, engine, size=LARGE) as shown:
            screen = await open_blocks(shown)
            for theme in (LIGHT, ANSI, PLAIN):
                shown.app.theme = theme
                painted = screen.block_map.num_painted
                await shown.press("m")
                assert screen.block_map.num_painted > painted


async def test_a_block_in_use_tells_who_holds_it():
    engine = ScriptedEngine(total_blocks=64)
    with open_service(engine) as service:
        first, second = fill(service, engine)
        engine.hold(first, (*SYSTEM, *ids("books of Venice "), *ids("again ", 20)))
        engine.hold(second, (*SYSTEM, *ids("unheard of ", 20)))
        async with stage(service, engine, size=SMALL) as shown:
            await open_blocks(shown)
            assert "held by 2: Venice, Mainz" in shown.text
            assert "last used now" in shown.text


async def test_a_prompt_that_fills_no_block_is_not_said_to_be_pinned():
    engine = ScriptedEngine([["a"]], total_blocks=64)
    with open_service(engine) as service:
        async with stage(service, engine) as shown:
            await shown.ask("x")
            await shown.answer()
            await shown.say("/pin")
            await shown.until_shown("shorter than one block of 16 tokens")


async def test_a_chat_and_its_system_text_are_pinned_by_command():
    engine = ScriptedEngine([["It is "] * 40], total_blocks=64)
    with open_service(engine) as service:
        async with stage(service, engine) as shown:
            await shown.say("/pin")
            await shown.until_shown("nothing to pin yet")
            chat = service.new_chat(system="You are a careful librarian who knows.")
            shown.app.workspace.refresh()
            shown.app.workspace.open(shown.app.workspace.find(chat.id))
            await shown.ask("What is a colophon, please?")
            await shown.answer()
            for command, told in (
                ("/pin", "Pinned 6 blocks, 1 more"),
                ("/pin system", "Pinned 2 blocks"),
                ("/unpin", "Unpinned: 6 blocks"),
                ("/unpin", "Nothing of this chat is pinned"),
                ("/pin everything", "/pin keeps the chat so far"),
            ):
                await shown.say(command)
                await shown.until_shown(told)
            engine.reserved_blocks = 60
            shown.prompt.text = ""
            await shown.say("/pin")
            await shown.until_shown("one full context needs 60")
            assert engine.kv.pins.keys == ()
