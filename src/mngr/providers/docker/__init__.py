"""Provider `docker`: containers that the `docker` or `podman` program runs.

Start with `provider.py`.
"""
