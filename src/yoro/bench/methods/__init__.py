"""Methods of the bench, and how each is run."""
