"""This package tells people what was found. `page` writes a study's report.html, `results` docs/results.md."""
