"""The examples in the docstrings run, and every public name has a docstring."""

import doctest
import importlib
import inspect
import pkgutil

import pytest

import rlgraph.nodes
import rlgraph.testing

MODULES = [
    package.__name__ + "." + module.name
    for package in (rlgraph.nodes, rlgraph.testing)
    for module in pkgutil.iter_modules(package.__path__)
]


@pytest.mark.parametrize("name", [*MODULES, "rlgraph.testing"])
def test_examples_run(name: str) -> None:
    assert doctest.testmod(importlib.import_module(name)).failed == 0


@pytest.mark.parametrize("package", [rlgraph.nodes, rlgraph.testing])
def test_public_names_are_documented(package) -> None:
    for name in package.__all__:
        public = getattr(package, name)
        if inspect.isclass(public) or inspect.isroutine(inspect.unwrap(public)):
            assert public.__doc__, f"{package.__name__}.{name} has no docstring"
