"""The request for an integration."""

from __future__ import annotations

from mngr.base.model import Struct


class IntegrateRequest(Struct):
    """The request for an integration. Exclusions of earlier requests hold until they are withdrawn."""

    without: list[str] = []
    reason: str = ""
    withdrawn: list[str] = []  # exclusions that are withdrawn
    only: str | None = None  # impl | tests | all
    onto: str | None = None
    agent: str | None = None  # the agent kind that resolves conflicts
    rounds: int = 2
    conflict_timeout: float = 1800.0  # seconds for resolving all conflicts
    is_full_verify: bool = False  # make full receipts before integrating
    is_append_only: bool = False  # keep all commits of the branch and revert excluded ones
    report_url: str | None = None  # where other people can read the report
