"""Save the whole state of an agent as files in a directory, and create an agent from such a directory.

Start with `save.py` and `restore.py`. `fetch_to_temporary_home.py` and `upload.py` do the same for remote hosts.
"""
