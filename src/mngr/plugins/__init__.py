"""The hooks that a plugin can implement, and the loader that finds plugins without importing them.

Start with `hooks.py`.
"""
