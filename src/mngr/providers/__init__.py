"""The providers, which are the sources of hosts. Each has its own folder, and no provider uses another.

Start with `local.py`, then `ssh/provider.py`. `shared/` holds code that several providers need.
"""
