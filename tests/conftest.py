import rlgraph  # noqa: F401  (before transformers: hides packages that do not fit the CPU build)
