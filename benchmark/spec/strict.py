"""What every table of a suite file is held to: no unknown keys, no text for a number, text that can be shown."""

from __future__ import annotations

from typing import Annotated

from pydantic import AfterValidator, BaseModel, ConfigDict, Field

from benchmark.files import is_plain


def _showable(text: str) -> str:
    if not is_plain(text):
        raise ValueError("it holds characters that cannot be shown")
    return text


Text = Annotated[str, Field(max_length=1000), AfterValidator(_showable)]


class Strict(BaseModel):
    """No unknown keys, no text for a number, nothing infinite."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, allow_inf_nan=False)
