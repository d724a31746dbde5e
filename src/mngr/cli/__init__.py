"""The command line: parse, call an operation, render. One file per command.

Start with `main.py`, the entry point, and `framework/table.py`, the list of all commands.
"""
