"""The journal of a run: its rows, the state that follows from them, and what the run has used.

Start with `journal_rows.py`, then `replay.py`; `journal_file.py` writes the file.
"""
