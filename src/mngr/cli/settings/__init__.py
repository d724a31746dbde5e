"""Commands for set-up: `init`, `config`, `doctor`, `completion` and others.

Each module holds `COMMAND`, a declaration, and `run(cli, args)`.
"""
