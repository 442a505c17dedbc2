"""Secure aggregation of federated statistics, with differential privacy on request."""
