"""What every room shares: layouts, settings, interfaces, errors, small functions on arrays. Imports no other room."""
