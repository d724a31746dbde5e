"""The code that all commands share: declare, parse, run, render, help and completion.

Start with `command_spec.py`, the declaration of a command, and `run.py`, which runs it.
"""
