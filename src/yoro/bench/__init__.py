"""What reproduces published numbers and no user of a classifier should do."""
