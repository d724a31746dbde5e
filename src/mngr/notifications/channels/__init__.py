"""The ways to reach a person, one module for each: desktop, web servers (ntfy, webhook) and commands.

Start with `channel.py`, which defines the protocol of a channel.
"""
