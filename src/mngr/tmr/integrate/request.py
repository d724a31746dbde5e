"""What is asked of an integration."""

from __future__ import annotations

from mngr.base.model import Struct


class IntegrateRequest(Struct):
    """What is asked of an integration; wishes of earlier ones hold until they are taken back."""

    without: list[str] = []
    reason: str = ""
    withdrawn: list[str] = []  # wishes that are taken back
    only: str | None = None  # impl | tests | all
    onto: str | None = None
    agent: str | None = None  # who merges what does not merge
    rounds: int = 2
    conflict_timeout: float = 1800.0  # seconds for all conflicts
    is_full_verify: bool = False  # each claim is first checked in full
    is_append_only: bool = False  # no commit of the branch may go: what is taken back is reverted
