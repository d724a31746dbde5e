"""Commits and files between an agent and the user: pull, push, copies, all checked on arrival.

Start with `pull.py`.
"""
