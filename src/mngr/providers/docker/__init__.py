"""Provider `docker`: containers by the `docker` or `podman` program.

Start with `provider.py`.
"""
