from tests.engines.conftest import tiny_model

__all__ = ["tiny_model"]
