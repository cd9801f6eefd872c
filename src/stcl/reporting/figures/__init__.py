"""Stage `figures`: one module per figure, each run as `python -m stcl.reporting.figures.<name>`."""
