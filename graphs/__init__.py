"""Algorithms: one graph file each."""
