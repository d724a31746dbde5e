"""Provider `slurm`: jobs of a Slurm cluster.

Start with `provider.py`; `job.sh` is the program that a job runs.
"""
