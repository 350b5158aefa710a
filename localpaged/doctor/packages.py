"""Facts of localpaged itself and of the packages it stands on: installed, and in range."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from importlib import metadata

from packaging.requirements import InvalidRequirement, Requirement
from packaging.version import InvalidVersion

from localpaged import __version__
from localpaged.doctor.fact import Fact, problem
from localpaged.paths import APP

TOLD = ("torch", "transformers", "textual", "sqlite-utils", "tokenizers", "gguf", "starlette")
"""Those whose versions people ask for; the others are only counted."""

VersionOf = Callable[[str], str]


def package_facts(
    requires: list[str] | None = None, version_of: VersionOf = metadata.version
) -> Iterator[Fact]:
    """Tell versions against the ranges that the installed localpaged asks for.

    Without `requires`, they are those of the installation.
    """
    yield Fact(APP, __version__, numbers={"version": __version__})
    if requires is None:
        try:
            requires = metadata.requires(APP) or []
        except metadata.PackageNotFoundError:
            advice = "Install it (`make setup`, or pip install): ranges of versions are not known."
            yield problem("packages", "localpaged runs without being installed", advice)
            return
    num_right = 0
    for text in requires:
        found = _checked(text, version_of)
        if found is None:
            continue
        is_right, fact = found
        num_right += is_right
        if not is_right or fact.name in TOLD:
            yield fact
    yield Fact("packages", f"{num_right} have versions in range", numbers={"in_range": num_right})


def _checked(text: str, version_of: VersionOf) -> tuple[bool, Fact] | None:
    """Return whether a package is as it must be, and the fact; None where it is not wanted."""
    try:
        wanted = Requirement(text)
    except InvalidRequirement:
        return False, problem("packages", f"{text} is no requirement", "Install localpaged again.")
    if wanted.marker is not None and not wanted.marker.evaluate({"extra": ""}):
        return None
    name, range_ = wanted.name, str(wanted.specifier)
    quoted = f"'{name}{range_}'"
    try:
        version = version_of(name)
        is_right = wanted.specifier.contains(version, prereleases=True)
    except metadata.PackageNotFoundError:
        return False, problem(name, f"not installed; {range_ or 'any'} is wanted", _get(quoted))
    except InvalidVersion:
        return False, problem(name, f"its version is no version; {range_} is wanted", _get(quoted))
    numbers = {"version": version, "wanted": range_}
    if not is_right:
        return False, problem(name, f"{version}; {range_} is wanted", _get(quoted), **numbers)
    return True, Fact(name, version, numbers=numbers)


def _get(quoted: str) -> str:
    return f"pip install {quoted}"
