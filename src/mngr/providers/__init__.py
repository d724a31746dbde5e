"""Providers: where hosts come from, a folder each. No provider knows another.

Start with `local.py`, then `ssh/provider.py`. `shared/` holds what several providers need.
"""
