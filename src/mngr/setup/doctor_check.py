"""The result of one check of `mngr doctor`."""

from __future__ import annotations

from mngr.base.model import Struct

OK, INFO, WARNING, ERROR = "ok", "info", "warning", "error"


class DoctorCheck(Struct):
    """The result of one check. A warning and an error have a hint with a complete command."""

    name: str
    status: str = OK
    found: str | None = None
    problem: str | None = None
    hint: str | None = None
