"""The jobs of the workflow. Each stage is a module that runs as `python -m stcl.stages.<name>`."""
