"""A graph file that forgot its build()."""

from tests.bad_graphs.parts import Config

__all__ = ["Config"]
