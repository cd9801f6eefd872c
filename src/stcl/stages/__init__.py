"""The jobs of the workflow, one module each, run as `python -m stcl.stages.<name>`."""
