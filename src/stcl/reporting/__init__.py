"""What is made from finished runs: tables, figures, reports, generated pages."""
