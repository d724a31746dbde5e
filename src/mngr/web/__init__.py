"""Pages for people: test runs with transcripts and recordings, and the report of a run.

Start with `report/report.py`; `live/` serves pages to this machine.
"""
