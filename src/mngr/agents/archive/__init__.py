"""Destroy, restore, clone, migrate and snapshot agents.

Start with `destroy.py`.
"""
