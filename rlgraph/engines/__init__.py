"""Engines: what holds a model's weights. One file each, imported only where one is built."""
