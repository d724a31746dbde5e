"""Code that mngr adds to a test's file for a trial, and the report that this code sends as the message of a failure."""

from __future__ import annotations

import base64
import binascii
import os
import zlib

from mngr.base.untrusted_json import parse_json
from mngr.tmr.cleanroom.program_sources import read_program
from mngr.tmr.runners.pytest import in_clean_room
from mngr.tmr.runners.pytest.in_clean_room.replaced_files import pack_text

_PROGRAMS = os.path.dirname(in_clean_room.__file__)
_MAX_REPORT = 1 << 20  # characters, unpacked


def write_loader(*programs: str) -> str:
    """Return Python code that loads programs of the clean room into the dictionary `_mngr`, one after the other."""
    packed = [pack_text(read_program(program, _PROGRAMS)) for program in programs]
    return "".join(
        [
            "import base64 as _b, zlib as _z, sys as _s\n_mngr = {'__name__': 'mngr_trial'}\n",
            *(
                f"exec(compile(_z.decompress(_b.b64decode('{text}')), 'mngr_trial', 'exec'), _mngr)\n"
                for text in packed
            ),
        ]
    )


def read_report(message: str, token: str) -> object:
    """Return the value behind the token, or None if the message contains none."""
    _, found, packed = message.rpartition(token)
    if not found:
        return None
    try:
        data = zlib.decompressobj().decompress(base64.b64decode(packed.split("\n")[0].strip()), _MAX_REPORT)
        return parse_json(data)
    except (ValueError, binascii.Error, zlib.error):
        return None
