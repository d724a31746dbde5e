"""Tells a person what agents and runs need, on the channels desktop, ntfy, webhook and command.

Start with `follow.py`, which turns the changes that `overview` reports into notifications and delivers them.
"""
