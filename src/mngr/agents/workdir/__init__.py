"""An agent's own copy of the project: its source, and how mngr creates, sets up and removes the copy.

Start with `source.py` and `transfer.py`.
"""
