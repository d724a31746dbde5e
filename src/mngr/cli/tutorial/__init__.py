"""The commands `mngr tutorial ...`.

Each module holds `COMMAND`, a declaration, and `run(cli, args)`.
"""
