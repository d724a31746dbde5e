"""The command that makes a fresh copy of a project runnable, and what a trial of it has shown."""

from __future__ import annotations

from mngr.base.model import Struct
from mngr.setup.init.find_test_requirements import RequirementSource
from mngr.setup.init.pytest_needs import NeededPackage

VENV_PYTHON = ".venv/bin/python"


class Adjustments(Struct):
    """What the trial of earlier settings has shown."""

    added: tuple[NeededPackage, ...] = ()  # packages that the tests need in addition
    avoided: frozenset[str] = frozenset()  # tools and sources of requirements that do not work, by name


class SetupCommand(Struct):
    """A command that makes a fresh copy of a project runnable, and the reason for it."""

    command: str
    reason: str
    files: tuple[str, ...] = ()  # files that the command reads
    notes: tuple[str, ...] = ()  # sentences that a person should read
    avoidable: tuple[RequirementSource, ...] = ()  # tools and sources that may be left out, the least important first
    python: str = ""  # the interpreter that runs the tests; empty: the one on PATH
    installs_package: bool = True  # False: the project's modules stay where they are


NO_ADJUSTMENTS = Adjustments()
