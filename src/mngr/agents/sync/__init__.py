"""Transfers commits and files between an agent and the user, and checks everything that arrives.

Start with `pull.py`.
"""
