"""Tables: what was measured in runs, aggregated, as tidy CSV, Markdown and LaTeX. One module a table."""
