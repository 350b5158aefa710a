"""Whatever a random model says, its answer is what the grammar describes."""

import json
import random
import re
import sys
from dataclasses import replace

import pytest

from localpaged.engine.finish_reason import FinishReason
from localpaged.engine.grammar import check
from localpaged.engine.params import BeamParams, DryParams, Grammar, Request, SamplingParams
from localpaged.errors import BadParameter, GrammarFailed
from testkit.decoders import load_decoder, make_decoder_core
from testkit.engine_runs import make_core, make_request, run
from testkit.fake_runner import FakeRunner
from testkit.tiny_model import save_tiny_model

PROMPT = [5, 9, 5, 33, 12, 9, 21]
# more ways on than the parser follows, as it notices when there is a token
MANY_OPTIONAL = json.dumps(
    {"type": "object", "properties": {f"k{i}": {} for i in range(700)}, "required": ["k699"]}
)
PERSON = Grammar(
    "json_schema",
    json.dumps(
        {
            "type": "object",
            "properties": {
                "name": {"type": "string", "maxLength": 8},
                "age": {"type": "integer", "minimum": 0, "maximum": 120},
                "tags": {"type": "array", "items": {"enum": ["a", "b é"]}, "maxItems": 3},
            },
            "required": ["name", "age", "tags"],
            "additionalProperties": False,
        }
    ),
)


class Model:
    def __init__(self, folder):
        self.decoder, opened = load_decoder(save_tiny_model(folder, "llama"))
        self.token_bytes = opened.chat.token_bytes
        self.eos_ids = opened.chat.eos_ids

    def core(self, **options):
        options = {"eos_ids": self.eos_ids, **options}
        return make_decoder_core(self.decoder, token_bytes=self.token_bytes, **options)

    def answer(self, grammar, *, core=None, **params):
        options = {"temperature": 1.0, "seed": 1, "max_tokens": 300, "ignore_eos": False, **params}
        return run(core or self.core(), [make_request("a", PROMPT, grammar=grammar, **options)])[
            "a"
        ]


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    return Model(tmp_path_factory.mktemp("model") / "llama")


def assert_person(text):
    value = json.loads(text)
    assert set(value) == {"name", "age", "tags"}
    assert len(value["name"]) <= 8
    assert 0 <= value["age"] <= 120
    assert len(value["tags"]) <= 3 and set(value["tags"]) <= {"a", "b é"}


def random_schema(source, depth=0):
    """Return a schema of bounded values, and what tells whether a value is one of them."""
    kinds = ["boolean", "null", "integer", "enum", "string", "const"]
    kind = source.choice(kinds if depth == 3 else [*kinds, "array", "object", "object", "anyOf"])
    match kind:
        case "boolean":
            return {"type": kind}, lambda v: isinstance(v, bool)
        case "null":
            return {"type": kind}, lambda v: v is None
        case "integer":
            low = source.randrange(-500, 500)
            high = low + source.randrange(1_000)
            schema = {"type": kind, "minimum": low, "maximum": high}
            return schema, lambda v: type(v) is int and low <= v <= high
        case "enum":
            values = source.sample(["x", "yes", 'qu"ote', "ünï", 3, None, True], 3)
            return {"enum": values}, lambda v: v in values
        case "const":
            return {"const": {"k": [1, "b"]}}, lambda v: v == {"k": [1, "b"]}
        case "string":
            longest = source.randrange(1, 6)
            schema = {"type": kind, "maxLength": longest}
            return schema, lambda v: isinstance(v, str) and len(v) <= longest
        case "array":
            items, is_item = random_schema(source, depth + 1)
            fewest = source.randrange(2)
            schema = {"type": kind, "items": items, "minItems": fewest, "maxItems": fewest + 2}
            return (
                schema,
                lambda v: (
                    isinstance(v, list) and fewest <= len(v) <= fewest + 2 and all(map(is_item, v))
                ),
            )
        case "anyOf":
            parts = [random_schema(source, depth + 1) for _ in range(2)]
            return {"anyOf": [s for s, _ in parts]}, lambda v: any(is_it(v) for _, is_it in parts)
    fields = {f"f{i}": random_schema(source, depth + 1) for i in range(source.randrange(3))}
    required = [name for name in fields if source.random() < 0.5]
    schema = {
        "type": "object",
        "properties": {name: part for name, (part, _) in fields.items()},
        "required": required,
        "additionalProperties": False,
    }
    return (
        schema,
        lambda v: (
            isinstance(v, dict)
            and set(required) <= set(v) <= set(fields)
            and all(fields[name][1](part) for name, part in v.items())
        ),
    )


def test_fifty_random_schemas(model):
    source = random.Random(7)
    cases = {f"schema {i}": random_schema(source) for i in range(50)}
    requests = [
        make_request(
            name,
            PROMPT,
            grammar=Grammar("json_schema", json.dumps(schema)),
            temperature=1.0,
            seed=place,
            max_tokens=400,
            ignore_eos=place % 2 == 0,
        )
        for place, (name, (schema, _)) in enumerate(cases.items())
    ]
    outcomes = run(model.core(num_blocks=600), requests)
    for name, (schema, is_valid) in cases.items():
        assert outcomes[name].finish.reason is FinishReason.STOP, schema
        assert is_valid(json.loads(outcomes[name].text)), (schema, outcomes[name].text)


@pytest.mark.parametrize(
    "params",
    [
        {"temperature": 0.0},
        {"temperature": 2.0},
        {"top_k": 1},
        {"top_p": 0.5, "min_p": 0.2},
        {"repetition_penalty": 2.0, "frequency_penalty": 1.0, "dry": DryParams(2.0)},
        {"logit_bias": ((3, 100.0),), "min_tokens": 200},
        {"logprobs": 3},
    ],
    ids=str,
)
def test_a_grammar_holds_with_every_kind_of_sampling(model, params):
    outcome = model.answer(PERSON, **params)
    assert_person(outcome.text)
    if "logprobs" in params:
        assert len(outcome.logprobs) == len(outcome.token_ids)


@pytest.mark.parametrize(
    "pattern", ["a+b", "[0-9]{3}-[0-9]{4}", "(yes|no)( indeed)?", "[α-ω]{2,5}!", r"\{x\}", ".{3}"]
)
@pytest.mark.parametrize("ignore_eos", [True, False])
def test_the_whole_answer_matches_a_regular_expression(model, pattern, ignore_eos):
    outcome = model.answer(Grammar("regex", pattern), ignore_eos=ignore_eos)
    assert outcome.finish.reason is FinishReason.STOP
    assert re.fullmatch(pattern, outcome.text)


def test_a_lark_grammar_bounds_an_answer(model):
    text = 'start: sum\nsum: NUM (" + " NUM)~1..3\nNUM: /[1-9][0-9]?/'
    outcome = model.answer(Grammar("lark", text))
    assert re.fullmatch(r"[1-9][0-9]?( \+ [1-9][0-9]?){1,3}", outcome.text)


def test_an_answer_ends_where_only_an_end_is_left_even_without_end_tokens(model):
    outcome = model.answer(Grammar("regex", "(ab|cd){2}"), core=model.core(eos_ids=frozenset()))
    assert outcome.finish.reason is FinishReason.STOP
    assert re.fullmatch("(ab|cd){2}", outcome.text)


def test_an_end_is_possible_only_where_the_grammar_allows_it(model):
    eos = min(model.eos_ids)
    outcome = model.answer(Grammar("regex", "[ab]{9,}"), logit_bias=((eos, 100.0),))
    assert re.fullmatch("[ab]{9,}", outcome.text)
    assert outcome.token_ids[-1] == eos


def test_a_cut_answer_says_so(model):
    outcome = model.answer(Grammar("regex", "a{100}"), max_tokens=5)
    assert outcome.finish.reason is FinishReason.LENGTH
    stopped = model.answer(Grammar("regex", "x{3}stop.*"), stop=("stop",))
    assert stopped.text == "xxx"


def test_branches_hits_neighbours_and_preemption_keep_each_ones_place(model):
    params = {"temperature": 1.0, "seed": 4, "max_tokens": 120, "num_samples": 3}
    alone = model.answer(PERSON, **params)
    crowd = [
        make_request(f"o{i}", [i + 3] * 60, temperature=0.8, seed=i, max_tokens=60)
        for i in range(4)
    ]
    mine = make_request("mine", PROMPT, grammar=PERSON, ignore_eos=False, **params)
    core = model.core(num_blocks=18)
    crowded = run(core, [*crowd, mine])["mine"]
    assert core.snapshot().preemptions > 0
    hit = run(core, [mine])["mine"]
    texts = [alone.branch(branch).text for branch in range(3)]
    assert len(set(texts)) == 3
    for text in texts:
        assert_person(text)
    assert [crowded.branch(branch).text for branch in range(3)] == texts
    assert [hit.branch(branch).text for branch in range(3)] == texts


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        ("json_schema", "nonsense"),
        ("json_schema", '{"type": 3}'),
        ("json_schema", '{"$ref": "#/nowhere"}'),
        ("json_schema", '{"minimum": NaN}'),
        ("json_schema", '{}}, {"lark_grammar": "start: /x/"'),
        ("json_schema", "[" * 100_000),
        ("json_schema", "3"),
        ("regex", "("),
        ("regex", "(?=a)b"),
        ("json_schema", '{"$ref": "#"}'),
        ("json_schema", '{"enum": []}'),
        ("regex", r"[^\s\S]"),
        ("lark", "start: missing"),
        ("lark", "no grammar at all"),
    ],
)
def test_what_cannot_be_compiled_is_refused_in_one_sentence(model, kind, text):
    core = model.core()
    outcome = model.answer(Grammar(kind, text), core=core)
    assert isinstance(outcome.fail.error, BadParameter)
    assert "cannot be used" in outcome.fail.error.message
    assert "\n" not in outcome.fail.error.message
    with pytest.raises(BadParameter) as refused:
        check(Grammar(kind, text))
    assert refused.value.message == outcome.fail.error.message
    assert refused.value.hint == outcome.fail.error.hint
    assert run(core, [make_request("b", PROMPT)])["b"].fail is None


def test_an_answer_goes_on_in_its_grammar_from_where_it_was_cut(model):
    grammar = Grammar("regex", "([0-9]{3}-){6}[0-9]{3}")
    params = {"temperature": 1.0, "seed": 3, "max_tokens": 100, "ignore_eos": False}
    whole = run(model.core(), [make_request("a", PROMPT, grammar=grammar, **params)])["a"]
    begun = whole.token_ids[:5]
    text = b"".join(model.token_bytes[token_id] for token_id in begun).decode()
    request = make_request("b", [*PROMPT, *begun], grammar=grammar, **params)
    rest = run(model.core(), [replace(request, is_continuation=True, begun_ids=tuple(begun))])["b"]
    assert re.fullmatch(grammar.text, text + rest.text)
    strange = replace(request, is_continuation=True, begun_ids=tuple(PROMPT))
    error = run(model.core(), [strange])["b"].fail.error
    assert error.message.endswith("cannot be used: the answer did not begin by it.")


def test_a_parser_that_gives_up_fails_its_request_alone(model, monkeypatch):
    core = model.core()
    take = sys.modules["localpaged.engine.grammar"].Matcher.take

    def give_up(matcher, token_id):
        take(matcher, token_id)
        matcher.error = "the parser met a limit"

    monkeypatch.setattr("localpaged.engine.grammar.Matcher.take", give_up)
    requests = [
        make_request("a", PROMPT, grammar=PERSON, num_samples=2),
        make_request("b", PROMPT),
    ]
    outcomes = run(core, requests)
    assert isinstance(outcomes["a"].fail.error, GrammarFailed)
    assert "the parser met a limit" in outcomes["a"].fail.error.message
    assert len(outcomes["b"].token_ids) == 8
    assert core.scheduler.kv.pool.num_held == 0


def test_a_schema_that_is_too_large_to_be_followed_says_so(model):
    error = model.answer(Grammar("json_schema", MANY_OPTIONAL)).fail.error
    assert isinstance(error, GrammarFailed)
    assert error.message.startswith("The grammar is too complex to be followed: ")
    assert "Loosen the grammar" in error.hint


@pytest.mark.parametrize("eos_ids", [frozenset(), frozenset({2})])
def test_a_vocabulary_that_cannot_say_it_fails_the_request_alone(model, eos_ids):
    digits = tuple(str(i % 10).encode() for i in range(320))
    core = make_decoder_core(model.decoder, token_bytes=digits, eos_ids=eos_ids)
    outcomes = run(
        core,
        [
            make_request("a", PROMPT, grammar=Grammar("regex", "1[a-z]+")),
            make_request("b", PROMPT, grammar=Grammar("regex", "[0-9]{5}")),
        ],
    )
    error = outcomes["a"].fail.error
    assert "allows no token" in error.message
    assert "Loosen the grammar" in error.hint and "log" not in error.hint
    assert re.fullmatch("[0-9]{5}", outcomes["b"].text)


def test_a_plan_without_a_grammar_carries_no_mask():
    runner = FakeRunner(64)
    run(make_core(runner=runner), [make_request("a", PROMPT)])
    assert all(row.allowed is None for plan in runner.plans for row in plan.rows)


@pytest.mark.parametrize(
    "make",
    [
        lambda: Grammar("yaml", "a"),  # type: ignore[arg-type]
        lambda: Grammar("regex", ""),
        lambda: Grammar("regex", "x" * 300_000),
        lambda: Request(
            "a", (1,), SamplingParams(grammar=Grammar("regex", "a")), beam=BeamParams(2)
        ),
    ],
)
def test_impossible_grammars_are_refused(make):
    with pytest.raises(BadParameter, match="grammar"):
        make()
