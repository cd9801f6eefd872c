"""What was found, for people: `page` writes a study's report.html, `results` the page docs/results.md."""
