"""Engines that are Python libraries, kept loaded in a separate process that runs in the Python which has them.

Start with `connection.py`. All other modules run there: they work in Python 3.9 and import nothing else of mngr.
"""
