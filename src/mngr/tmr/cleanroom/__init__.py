"""Clean rooms: fresh workspaces at a commit, in which mngr runs tests itself, sandboxed and limited.

Start with `clean_rooms.py`. `clean_room_program.py` runs inside a clean room. It knows nothing of test runners.
"""
