"""What can be wrong with a pipeline project, apart from its SQL."""

from __future__ import annotations

from viewkeep.errors import ViewkeepError


class PipelineProblem(ViewkeepError):
    """A pipeline's spec, or one of its files or functions, cannot be used. `line`: in the file, if known."""

    code = "pipeline"

    def __init__(self, message: str, *, hint: str = "", line: int | None = None) -> None:
        super().__init__(message, hint=hint)
        self.line = line
