"""Reach a running agent: messages, commands, terminals, ssh.

Start with `message.py`.
"""
