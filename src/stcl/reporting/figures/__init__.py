"""Each figure has one module here. It runs as `python -m stcl.reporting.figures.<name>`."""
