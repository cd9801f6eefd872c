"""What every room shares: layouts, settings, interfaces, errors and functions on arrays. It imports no other room."""
