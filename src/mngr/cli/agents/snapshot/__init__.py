"""The commands `mngr snapshot ...`.

Each module holds `COMMAND`, a declaration, and `run(cli, args)`.
"""
