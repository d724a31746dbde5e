"""The shell programs that run on a host: POSIX sh, sent in one piece or kept in the home's `lib`.

Start with `list.sh` and `start.sh`; the functions below read these files.
"""

from __future__ import annotations

import os

from mngr.base import shell

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

_SCRIPTS_DIR = os.path.dirname(__file__)
# These programs run after the command that sent them has ended.
INSTALLED_PROGRAMS = (
    "run_in_work_dir.sh",
    "launch.sh",
    "add_event.sh",
    "stop.sh",
    "watch.sh",
)
_OCTAL_ESCAPES = {byte: f"\\0{byte:03o}" for byte in (92, *range(127, 256))}
# Characters that some login shells interpret even inside single quotes.
_SHELL_ESCAPES = {"\\": "\\0134", "'": "\\0047", "!": "\\0041", "\n": "\\n", "\r": "\\r"}


def read_program_beside(module: str, name: str) -> str:
    """Return the text of a program that lies beside a module, given the module's `__file__`."""
    return read_program(name, os.path.dirname(module))


def read_program(name: str, folder: str = _SCRIPTS_DIR) -> str:
    """Return the text of a program, with each line `#include FILE` replaced by that file of this folder."""
    with open(os.path.join(folder, name), encoding="utf-8") as file:
        text = file.read()
    while "\n#include " in text:
        before, _, rest = text.partition("\n#include ")
        part, _, after = rest.partition("\n")
        text = f"{before}\n{read_program(part)}{after}"
    return text


def format_one_line(text: str, only: Sequence[str] | None = None, login: str = "") -> str:
    """Return a program as one line that every login shell passes to sh unchanged.

    `only` lists K=V pairs that become the program's whole environment.
    `login` is the path of the login shell, if known: for bash the line needs two processes less.
    """
    if os.path.basename(login) == "bash":
        exports = "".join(f"export {shell.quote(word)}\n" for word in only or ())
        return f"exec {'' if only is None else '-c '}sh -c {shell.quote(exports + text)}"
    encoded = "".join(_SHELL_ESCAPES.get(char, char) for char in text)
    env_command = "" if only is None else f"env -i {shell.join(only)} "
    return f"""exec {env_command}sh -c 'eval "$(printf %b "$0")"' '{encoded}'"""


def escape_non_ascii(text: str) -> str:
    """Return the same program in ASCII, for systems that treat arguments as text and not as bytes."""
    if text.isascii():
        return text
    octal = text.encode("utf-8", "surrogateescape").decode("latin-1").translate(_OCTAL_ESCAPES)
    return f'eval "$(printf %b {shell.quote(octal)})"'


def compute_installed_version() -> str:
    """Return a checksum of the installed programs, which names their version."""
    import zlib

    return f"{zlib.crc32(''.join(read_program(name) for name in INSTALLED_PROGRAMS).encode()):08x}"
