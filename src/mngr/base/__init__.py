"""Errors, data, names, paths, settings and processes for all other packages. Nothing here knows agents.

Start with `model.py`, the data that all layers exchange, and `errors.py`.
"""
