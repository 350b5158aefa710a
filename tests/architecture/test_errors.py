"""Every error has its place in the tree, a hint, and an exit code that the README tells."""

from pathlib import Path

import pytest

from localpaged import errors

README = (Path(__file__).parents[2] / "README.md").read_text()
EXIT_CODES = {
    "ConfigError": 2,
    "ModelError": 4,
    "EngineError": 5,
    "ChatError": 1,
    "StatsError": 1,
    "StoreError": 6,
    "NotInHistory": 4,
}


def every_error(base=errors.LocalPagedError):
    for error in base.__subclasses__():
        yield error
        yield from every_error(error)


@pytest.mark.parametrize("error", list(every_error()), ids=lambda error: error.__name__)
def test_every_error_is_drawn_in_the_tree_and_has_its_branchs_exit_code(error):
    assert error.__name__ in (errors.__doc__ or "")
    branch = next(c for c in error.__mro__ if c.__name__ in EXIT_CODES)
    assert error.exit_code == EXIT_CODES[branch.__name__]


@pytest.mark.parametrize("code", sorted({0, 1, 130, 141, *EXIT_CODES.values()}))
def test_the_readme_explains_every_exit_code(code):
    assert f"| {code} |" in README


def test_message_and_hint_are_kept():
    error = errors.NoRoom("too small", hint="make it larger")
    assert (error.message, error.hint, str(error)) == ("too small", "make it larger", "too small")
