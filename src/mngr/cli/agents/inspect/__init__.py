"""Commands that look at agents and change nothing: `list`, `wait`, `diff` and others.

Each module holds `COMMAND`, a declaration, and `run(cli, args)`.
"""
