"""The studio: a local web app for building a classifier interactively."""
