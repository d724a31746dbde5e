"""Destroy and bring back, clone, migrate and snapshot agents.

Start with `destroy.py`.
"""
