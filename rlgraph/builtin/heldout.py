"""Which questions are kept for evaluation."""

from hashlib import blake2b


def is_held_out(question: str) -> bool:
    """About a tenth of all questions, by their text alone."""
    return int.from_bytes(blake2b(question.encode(), digest_size=8).digest(), "big") % 10 == 0
