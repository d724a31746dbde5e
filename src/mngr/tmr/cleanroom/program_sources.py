"""The texts of the programs that run in clean rooms."""

from __future__ import annotations

import os

_HERE = os.path.dirname(__file__)
PROGRAM_LOADER = (
    "import sys; sys.path.insert(0, %r); import mngr_clean_room"  # imported, so that Python uses its cached bytecode
)


def read_program(name: str, folder: str) -> str:
    """Return the text of a program that runs in a clean room."""
    with open(os.path.join(folder, name), encoding="utf-8") as file:
        return file.read()


def read_clean_room_programs() -> dict[str, str]:
    """Return the texts of the clean room program and of the modules that it imports, by their names there."""
    files = {
        "mngr_clean_room": "clean_room_program",
        "mngr_lfs": "lfs_files",
        "mngr_limits": "resource_limits",
        "mngr_protection": "workspace_protection",
        "mngr_setup_files": "protect_setup_files",
    }
    return {f"{name}.py": read_program(f"{file}.py", _HERE) for name, file in files.items()}
