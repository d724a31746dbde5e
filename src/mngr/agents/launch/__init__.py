"""Start an agent's process: its environment and its tmux session.

Start with `launch.py`.
"""
