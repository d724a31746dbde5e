"""The hint for an error of git names the machine on which git ran."""

from __future__ import annotations

import os
from collections.abc import Sequence

from mngr.base.errors import Unreachable
from mngr.host.git import suggest_hint
from mngr.host.remote_host import RemoteHost

OWNED_BY_ANOTHER = "fatal: detected dubious ownership in repository at '/srv/my project'"


class Nowhere:
    """A transport that leads nowhere, because a hint runs no command."""

    def build_argv(self, program: str, *, terminal: bool = False, only: Sequence[str] | None = None) -> list[str]:
        raise AssertionError(program)

    def make_lost_error(self, stderr: str) -> Unreachable:
        return Unreachable(stderr)

    def close(self) -> None:
        pass


BOX = RemoteHost("box", "ssh", Nowhere(), "/nowhere", os.getuid())


def test_the_hint_for_a_repository_of_another_user_is_a_command_with_its_directory() -> None:
    command = "git config --global --add safe.directory '/srv/my project'"
    assert suggest_hint(OWNED_BY_ANOTHER) == f"another user owns the directory; if you trust it, run: {command}"
    assert suggest_hint(OWNED_BY_ANOTHER, BOX).endswith(f"if you trust it, run on box: {command}")


def test_the_hint_for_another_error_on_a_host_checks_that_host() -> None:
    assert suggest_hint("fatal: it broke", BOX) == "check the host: mngr doctor @box"
    assert suggest_hint("fatal: it broke") == "check git on this machine: mngr doctor"
    assert suggest_hint("fatal: No space left on device", BOX).startswith("free some disk space on box, then")
