"""The whole state of an agent as files in a directory, and an agent made from such a directory.

Start with `save.py` and `restore.py`; `stage.py` and `land.py` do the same for another host.
"""
