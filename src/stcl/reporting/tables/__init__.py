"""Each table has one module here. It aggregates what runs measured and writes CSV, Markdown, LaTeX and JSON."""
