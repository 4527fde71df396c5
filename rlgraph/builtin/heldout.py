"""Which questions of a generated task are kept for evaluation."""

from hashlib import blake2b


def is_held_out(question: str) -> bool:
    """About a tenth of all questions, decided by their text alone.

    So whatever draws questions, and with whatever seed, agrees on them.
    """
    digest = blake2b(question.encode(), digest_size=8).digest()
    return int.from_bytes(digest, "big") % 10 == 0
