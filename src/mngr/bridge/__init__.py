"""Engines that are Python libraries, kept loaded in a process of their own that runs in the Python which has them.

Imports nothing else of mngr, and works in Python 3.9 and later.
"""
