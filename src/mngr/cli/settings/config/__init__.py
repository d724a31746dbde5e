"""The commands `mngr config ...`.

Each module holds `COMMAND`, a declaration, and `run(cli, args)`.
"""
