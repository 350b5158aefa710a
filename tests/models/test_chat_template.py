"""Chat templates render as in transformers and cannot hurt."""

from __future__ import annotations

import time
from typing import Any

import pytest
from transformers.utils.chat_template_utils import render_jinja_template

from localpaged.errors import ModelError, UnsupportedModel
from localpaged.models.chat_template import ChatTemplate

CONVERSATION = [
    {"role": "system", "content": "Be <b>brief</b> & 'kind'"},
    {"role": "user", "content": "{{ 7 * 7 }} {% raise %}"},
    {"role": "assistant", "content": "ok\n"},
    {"role": "user", "content": "more"},
]
EACH = "{% for m in messages %}"
TEMPLATES = {
    "white space": "{%- for m in messages %}\n    {% if loop.first %}first{% endif %}\n"
    "{{ m.content }}\n{%- endfor %}\n  x\n",
    "loop controls": EACH + "{% if m.role == 'assistant' %}{% continue %}{% endif %}"
    "{{ m.content }}{% if loop.index == 2 %}{% break %}{% endif %}{% endfor %}",
    "tojson": "{{ messages | tojson }}{{ messages[0] | tojson(indent=2) }}",
    "namespace": "{% set ns = namespace(n=0) %}"
    + EACH
    + "{% set ns.n = ns.n + 1 %}{% endfor %}{{ ns.n }}",
    "macro": "{% macro show(m) %}[{{ m['role'] }}: {{ m.content | trim }}]{% endmacro %}"
    + EACH
    + "{{ show(m) }}{% endfor %}",
    "reversed": "{% for m in messages[::-1] %}{{ loop.index0 }}"
    "{{ m.content.strip().split(' ')[0] }}{% endfor %}",
    "specials": "{{ bos_token }}{{ eos_token }}{{ unknown_thing }}",
    "defined": "{% if tools is defined and tools %}T{% else %}-{% endif %}"
    "{{ enable_thinking is defined }}",
    "range": "{% for i in range(3) %}{{ i }}{% endfor %}{% for i in range(9, 1, -3) %}{{ i }}"
    "{% endfor %}",
    "arithmetic": "{{ dict(a=1)['a'] }}{{ 'ab' * 3 }}{{ 2 ** 8 }}{{ 7 // 2 }}{{ 7 % 4 }}",
    "generation": EACH + "{% generation %}{{ m.content }}{% endgeneration %}{% endfor %}",
    "prompt": "{% if add_generation_prompt %}answer:{% endif %}",
    "replace": "{{ messages[0].content | replace('kind', 'x') | upper | length }}",
}


def render(source: str, conversation: Any = None) -> str:
    template = ChatTemplate(source, model_name="m")
    return template.render(
        conversation or CONVERSATION,
        special_texts={"bos_token": "<s>", "eos_token": "</s>"},
        add_generation_prompt=True,
    )


@pytest.mark.parametrize("source", TEMPLATES.values(), ids=TEMPLATES.keys())
def test_templates_render_as_in_transformers(source: str):
    expected, _ = render_jinja_template(
        [CONVERSATION],
        chat_template=source,
        add_generation_prompt=True,
        bos_token="<s>",
        eos_token="</s>",
    )

    assert render(source) == expected[0]


HOSTILE = {
    "attributes": "{{ messages.__class__.__mro__ }}",
    "globals": "{{ raise_exception.__globals__['os'] }}",
    "namespace attributes": "{% set ns = namespace() %}{% set ns.__class__ = 1 %}",
    "mutation": "{{ messages.append(1) }}",
    "huge text": "{{ 'x' * 10**9 }}",
    "huge list": "{{ ([0] * 10**9) | length }}",
    "huge power": "{{ 9 ** 9 ** 9 }}",
    "endless range": "{% for i in range(10**9) %}{% endfor %}",
    "nested ranges": "{% for i in range(99999) %}{% for j in range(99999) %}"
    "{% endfor %}{% endfor %}",
    "endless output": "{% for i in range(99999) %}{{ 'x' * 1000 }}{% endfor %}",
    "recursion": "{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}",
    "division": "{{ 1 // 0 }}",
    "type": "{{ 1 + 'a' }}",
    "refusal": "{{ raise_exception('no') }}",
}


@pytest.mark.parametrize("source", HOSTILE.values(), ids=HOSTILE.keys())
def test_a_hostile_template_fails_fast_with_one_sentence(source: str):
    started = time.monotonic()

    with pytest.raises(ModelError, match="refuses this conversation") as caught:
        render(source)

    assert time.monotonic() - started < 2
    assert "\n" not in caught.value.message


@pytest.mark.parametrize("source", ["{% if %}", "{{ x", "{% nonsense %}", "{" + "{" * 5_000])
def test_a_broken_template_is_refused_when_the_model_is_opened(source: str):
    with pytest.raises(UnsupportedModel, match="cannot be compiled"):
        ChatTemplate(source, model_name="m")


def test_a_huge_template_is_refused():
    with pytest.raises(UnsupportedModel, match="characters"):
        ChatTemplate("x" * (2**20 + 1), model_name="m")


def test_messages_are_data_never_template_code():
    assert "{{ 7 * 7 }} {% raise %}" in render("{% for m in messages %}{{ m.content }}{% endfor %}")


def test_a_long_conversation_is_not_an_overflow():
    conversation = [{"role": "user", "content": "x" * 5_000_000}]

    assert len(render("{{ messages[0].content }}", conversation)) == 5_000_000
