"""The commands `mngr tmr ...`.

Start with `run.py`; `shared.py` is what several of them need.
"""
