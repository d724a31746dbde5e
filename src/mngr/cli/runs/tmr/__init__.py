"""The commands `mngr tmr ...`.

Start with `run.py`; `shared.py` holds the code that several of them use.
"""
