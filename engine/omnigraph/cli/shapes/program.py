"""What commands print that need no graph: lint, explain, version."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

from omnigraph.cli.shapes.base import Count, Shape


class LintFinding(Shape):
    severity: Literal["error", "warning"]
    code: str
    message: str
    line: int
    column: int
    query: str | None


class Lint(Shape):
    """A file with errors is an error document with the code query-invalid and these members."""

    query_file: str
    status: Literal["ok"]
    error_count: Count
    warning_count: Count
    findings: list[LintFinding]


class ErrorCode(Shape):
    model_config = ConfigDict(extra="forbid", frozen=True, populate_by_name=True)

    code: str
    class_: str = Field(alias="class")
    exit_code: int
    http_status: int
    meaning: str
    hint: str


class ErrorCodes(Shape):
    codes: list[ErrorCode]


class Version(Shape):
    version: str
    storage_version: int


class ErrorBody(BaseModel):
    """Every error has these three; further members are the facts of its kind."""

    model_config = ConfigDict(extra="allow", frozen=True)

    error: str
    code: str
    hint: str
