"""The service: a model over HTTP, with images of many requests in one forward pass."""
