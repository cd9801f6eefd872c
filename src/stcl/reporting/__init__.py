"""This room makes tables, figures, reports and generated pages from finished runs."""
