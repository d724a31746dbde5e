"""Tells whether the kernel of this machine has the scopes of Landlock, which close abstract unix sockets to a sandbox."""

from __future__ import annotations

import ctypes

_CREATE_RULESET, _RETURN_VERSION, _FIRST_WITH_SCOPES = 444, 1, 6
HAS_SCOPES = ctypes.CDLL(None).syscall(_CREATE_RULESET, None, 0, _RETURN_VERSION) >= _FIRST_WITH_SCOPES
