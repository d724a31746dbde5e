"""The operations on agents, one folder per topic. They never print and never parse a command line.

Start with `context.py`, which every operation uses, then `create/create.py` and `inspect/list.py`.
"""
