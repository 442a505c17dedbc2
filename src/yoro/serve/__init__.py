"""The service: answers over HTTP, many requests to one forward pass."""
