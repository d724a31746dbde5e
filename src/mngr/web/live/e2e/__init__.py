"""The pages of e2e test runs and of the tutorial, served or written to files.

Start with `e2e_paths.py`; `export.py` writes files and needs no server.
"""
