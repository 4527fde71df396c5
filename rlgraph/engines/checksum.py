"""Are these the weights of this model, and did they arrive?"""

from collections.abc import Iterable, Mapping

import torch
from torch import Tensor

from rlgraph.errors import EngineError

PERIOD = 251
"""A prime, so that it has no common factor with the usual row lengths."""


def checksums(tensors: Iterable[tuple[str, Tensor]], dtype: torch.dtype) -> dict[str, float]:
    """A position-weighted sum per tensor, computed on CPU after rounding to ``dtype``.

    Equal tensors give equal numbers, bit for bit. Values that swap places, as in a
    wrongly packed layer, change them, which they would not in a plain sum.
    """
    result = {}
    for name, tensor in tensors:
        flat = tensor.detach().to(dtype).cpu().double().flatten()
        weights = torch.arange(len(flat), dtype=torch.float64).remainder_(PERIOD).add_(1)
        result[name] = float(torch.dot(flat, weights))
    return result


def compare(sent: Mapping[str, float], arrived: Mapping[str, float]) -> None:
    """Hold the two sides' checksums against each other.

    A name that only the receiver has is compared if it is a tied output head.

    Raises:
        EngineError: one differs or is missing; names the tensors.
    """
    expected = dict(sent)
    tied = next((name for name in sent if name.endswith("embed_tokens.weight")), None)
    if tied is not None and "lm_head.weight" in arrived:
        expected.setdefault("lm_head.weight", sent[tied])
    wrong = sorted(name for name in expected if arrived.get(name) != expected[name])
    if wrong:
        name = wrong[0]
        raise EngineError(
            f"{len(wrong)} of {len(expected)} tensors differ between trainer and sampler, first "
            f"{name}: checksum {expected[name]!r} sent, {arrived.get(name)!r} found"
        )


def compare_shapes(expected: Mapping[str, torch.Size], given: Mapping[str, torch.Size]) -> None:
    """Hold a model's tensors against those that it is given.

    A tied output head may be given once more under its own name.

    Raises:
        EngineError: one is missing, unknown, or of another shape.
    """
    wrong = sorted(
        name
        for name in expected.keys() | given.keys()
        if expected.get(name) != given.get(name)
        and not (name == "lm_head.weight" and name not in expected)
    )
    if wrong:
        name = wrong[0]
        raise EngineError(
            f"load_weights: {name} has shape {_text(given.get(name))}, expected "
            f"{_text(expected.get(name))} (and {len(wrong) - 1} more tensors differ); do sampler "
            "and trainer start from the same model?"
        )


def _text(shape: torch.Size | None) -> str:
    return "none" if shape is None else "x".join(str(size) for size in shape)
