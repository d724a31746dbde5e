"""Commands for agents, from `create` to `destroy`.

Each module holds `COMMAND`, a declaration, and `run(cli, args)`.
"""
