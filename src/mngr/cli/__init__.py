"""The command line: parse, call an operation, render. One file per command.

Start with `main.py`, the entry point, and `framework/command_table.py`, the list of all commands.
"""
