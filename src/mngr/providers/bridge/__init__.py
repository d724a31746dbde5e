"""Runs engines that are Python libraries in a separate process, which uses the Python that has the library.

Start with `connection.py`. All other modules run in that process: they work in Python 3.9 and import nothing
else of mngr.
"""
