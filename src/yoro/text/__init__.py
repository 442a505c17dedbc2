"""Sentences that describe classes, and their vectors."""
