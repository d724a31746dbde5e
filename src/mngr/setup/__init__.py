"""The operations behind `doctor`, `init` and `plugin list`: they look at the machine, the project and the plugins.

Start with `init.py`.
"""
