"""Calls are found however their text is cut; what is no call stays text, and nothing is lost."""

from __future__ import annotations

import json
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st
from llguidance import LLMatcher

from localpaged.prompt import ToolCall
from localpaged.server.fields import Fields
from localpaged.server.tool_calls import ToolCallReader
from localpaged.server.tools import tool_use_of

NAMES = {"weather", "time"}
HERMES = '<tool_call>\n{"name": "weather", "arguments": {"city": "Rome"}}\n</tool_call>'
CALLS = {
    "hermes": HERMES + "\n" + HERMES.replace("weather", "time"),
    "llama3": '{"name": "weather", "parameters": {"city": "Rome"}}; '
    '{"name": "time", "parameters": {"city": "Rome"}}',
    "mistral": '[TOOL_CALLS][{"name": "weather", "arguments": {"city": "Rome"}}, '
    '{"name": "time", "arguments": {"city": "Rome"}}]',
}


def read(style, text, *, cuts=(), **options):
    reader = ToolCallReader(style, NAMES, **options)
    places = [0, *sorted(cuts), len(text)]
    parts = [part for a, b in pairwise(places) for part in reader.take(text[a:b])]
    parts += reader.finish()
    content = "".join(part for part in parts if isinstance(part, str))
    return content, [part for part in parts if isinstance(part, ToolCall)]


@given(data=st.data(), style=st.sampled_from(sorted(CALLS)))
def test_calls_are_found_however_the_text_is_cut(data, style):
    text = CALLS[style]
    cuts = data.draw(st.lists(st.integers(0, len(text)), max_size=8))

    content, calls = read(style, text, cuts=cuts)

    assert content == ""
    assert [call.name for call in calls] == ["weather", "time"]
    assert all(json.loads(call.arguments) == {"city": "Rome"} for call in calls)
    assert calls[0].id != calls[1].id


@given(data=st.data(), style=st.sampled_from(sorted(CALLS)))
def test_a_text_without_calls_comes_through_unchanged(data, style):
    pieces = ("<tool_", "call>", "</tool_call>", "{", "}", '"name"', "[TOOL_", "CALLS]", "x", " \n")
    text = "".join(data.draw(st.lists(st.sampled_from(pieces), max_size=12)))
    cuts = data.draw(st.lists(st.integers(0, len(text)), max_size=8))

    assert read(style, text, cuts=cuts) == (text, [])


def test_words_before_a_call_are_content():
    content, calls = read("hermes", "I look.\n" + HERMES)

    assert content == "I look.\n"
    assert len(calls) == 1


@pytest.mark.parametrize(
    "text",
    [
        '<tool_call>\n{"name": "rm", "arguments": {}}\n</tool_call>',
        "<tool_call>\n{not json}\n</tool_call>",
        '<tool_call>\n{"name": "weather", "arguments": [1]}\n</tool_call>',
        '<tool_call>\n{"name": {}, "arguments": {}}\n</tool_call>',
        "<tool_call>[1]</tool_call>",
        "<tool_call>" + "[" * 100_000 + "</tool_call>",
    ],
)
def test_what_may_not_be_called_is_text(text):
    assert read("hermes", text) == (text, [])


def test_a_call_that_the_end_cuts_off_is_text_unless_it_is_whole():
    whole = HERMES.removesuffix("\n</tool_call>")

    assert len(read("hermes", whole)[1]) == 1
    assert read("hermes", whole[:-4]) == (whole[:-4], [])


def test_half_a_character_in_a_call_harms_nobody():
    text = '<tool_call>{"name": "time", "arguments": {"a": "\\ud83d", "b": "\\u001b"}}</tool_call>'

    _, (call,) = read("hermes", text)

    assert call.arguments.encode() == '{"a": "\ufffd", "b": "\\u001b"}'.encode()


def test_mistrals_later_way_is_read_as_well():
    text = '[TOOL_CALLS]weather[ARGS]{"city": "Rome"}[TOOL_CALLS]time[CALL_ID]abc[ARGS]{}'

    _, calls = read("mistral", text)

    assert [(call.name, call.arguments) for call in calls] == [
        ("weather", '{"city": "Rome"}'),
        ("time", "{}"),
    ]
    assert all(len(call.id) == 9 and call.id.isalnum() for call in calls)


def test_only_one_call_where_only_one_is_wanted():
    content, calls = read("hermes", CALLS["hermes"] + " and more", is_parallel=False)

    assert (content, len(calls)) == ("", 1)


@pytest.mark.parametrize("style", sorted(CALLS))
@pytest.mark.parametrize("choice", ["required", "named"])
def test_forced_calls_have_a_grammar_that_their_reader_reads(style, choice):
    schema = {
        "type": "object",
        "properties": {"city": {"$ref": "#/$defs/city"}},
        "required": ["city"],
        "$defs": {"city": {"type": "string"}},
    }
    named = {"type": "function", "function": {"name": "time"}}
    tools = [
        {"type": "function", "function": {"name": name, "parameters": schema}}
        for name in sorted(NAMES)
    ]
    body = {"tools": tools, "tool_choice": "required" if choice == "required" else named}

    grammar = tool_use_of(Fields(body)).grammar(style, schema=None)

    compiled = LLMatcher.grammar_from_lark(grammar.text)
    assert not LLMatcher.validate_grammar(compiled)
