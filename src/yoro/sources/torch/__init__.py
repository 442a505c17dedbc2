"""Sources that need torch."""
