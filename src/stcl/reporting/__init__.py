"""This room shows runs: tables, figures, reports and pages of finished ones, the state of those that are not."""
