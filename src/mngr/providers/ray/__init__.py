"""Provider `ray`: actors on a Ray cluster.

Start with `provider.py`. `ray_calls.py` runs in the Python that has Ray; `host_actor.py`, `actor_command.py`,
`work_backup.py` and `host_init_process.py` run on the cluster.
"""
