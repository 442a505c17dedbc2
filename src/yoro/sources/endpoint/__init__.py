"""Endpoints: any address that answers an image with a vector."""
