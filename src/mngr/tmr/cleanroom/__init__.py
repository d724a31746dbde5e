"""Clean rooms: fresh workspaces at a commit, in which mngr runs tests itself, sandboxed and limited.

Start with `clean_rooms.py` and `test_run.py`. `clean_room_program.py`, `pytest_probe.py` and its plugins run inside a
clean room.
"""
