"""Errors, data classes, names, paths, settings and processes. Every other package uses these modules.

Start with `model.py`, the data that all layers exchange, and `errors.py`.
"""
