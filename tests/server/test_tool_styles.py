"""Each family's way to write calls, from its template to the client and back."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from testkit.http_server import tiny
from testkit.tiny_model import CHAT_TEMPLATE, build_tokenizer

# what templates of these families write where a call is
MARKS = {
    "hermes": "<tool_call>",
    "llama3": "<|python_tag|>",
    "mistral": "[TOOL_CALLS]",
    "none": "",
}
CITY = {
    "type": "object",
    "properties": {"city": {"enum": ["rome"]}},
    "required": ["city"],
    "additionalProperties": False,
}
TOOLS: Any = [
    {"type": "function", "function": {"name": name, "parameters": CITY}} for name in ("sun", "rain")
]


@pytest.mark.parametrize("style", sorted(MARKS))
def test_a_forced_call_is_read_in_each_style_and_its_result_told(tiny_folder, tmp_path, style):
    folder = Path(shutil.copytree(tiny_folder, tmp_path / "llama"))
    knows_tools = "{% if tools %}{{ tools | length }}{% endif %}"
    told = "{% if tools and false %}MARK{% endif %}".replace("MARK", MARKS[style])
    template = (knows_tools + told if MARKS[style] else "") + CHAT_TEMPLATE
    build_tokenizer(chat_template=template).save_pretrained(folder)

    with tiny(folder) as (served, core):
        answer = served.chat(
            "sun?", tools=TOOLS, tool_choice="required", parallel_tool_calls=False, max_tokens=300
        ).json()
        message = answer["choices"][0]["message"]
        (call,) = message["tool_calls"]
        result = {"role": "tool", "tool_call_id": call["id"], "content": "yes"}
        question = {"role": "user", "content": "sun?"}
        body = {"model": "llama", "messages": [question, message, result], "tools": TOOLS}
        again = served.post("/v1/chat/completions", {**body, "max_tokens": 3})
        core.check()

    assert message["content"] is None
    assert call["function"]["name"] in ("sun", "rain")
    assert json.loads(call["function"]["arguments"]) == {"city": "rome"}
    assert len(call["id"]) == (9 if style == "mistral" else 29)
    assert again.status_code == 200, again.text
