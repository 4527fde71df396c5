"""How a loss's terms become one number over the global optimizer batch."""

from dataclasses import dataclass

from torch import Tensor

from rlgraph.engines.protocols import Aggregation
from rlgraph.errors import EngineError


@dataclass(frozen=True)
class Normaliser:
    """The denominators of one optimizer batch, over all ranks and micro-batches.

    ``rows`` counts the rows with at least one action token, ``tokens`` their
    action tokens.
    """

    aggregation: Aggregation
    rows: int
    tokens: int
    constant_length: int | None = None

    @classmethod
    def of(
        cls, action_mask: Tensor, aggregation: Aggregation, constant_length: int | None = None
    ) -> "Normaliser":
        """Count in the action mask ``[batch seq]`` of the whole optimizer batch.

        Raises:
            EngineError: an unknown aggregation, a missing length, or nothing to count.
        """
        if aggregation not in Aggregation.__args__:  # type: ignore[attr-defined]
            known = ", ".join(Aggregation.__args__)  # type: ignore[attr-defined]
            raise EngineError(f"unknown aggregation '{aggregation}'; choose one of {known}")
        if aggregation == "seq-sum-constant" and not (constant_length and constant_length > 0):
            raise EngineError(
                "aggregation 'seq-sum-constant' needs a positive constant_length, "
                f"such as the longest response; it is {constant_length}"
            )
        counts = action_mask.sum(-1)
        rows, tokens = int((counts > 0).sum()), int(counts.sum())
        if not tokens:
            raise EngineError("an optimizer batch without action tokens has no loss")
        return cls(aggregation, rows, tokens, constant_length)

    def weights(self, action_mask: Tensor) -> Tensor:
        """Weight of each term ``[batch seq]`` of some of the rows, float32, 0 off the mask.

        =====================  ==========================================
        token-mean             1 / all action tokens
        seq-mean-token-mean    1 / (rows * the row's own action tokens)
        seq-mean-token-sum     1 / rows
        seq-sum-constant       1 / (rows * constant_length), Liu et al. (2025), Dr. GRPO
        =====================  ==========================================
        """
        mask = action_mask.float()
        match self.aggregation:
            case "token-mean":
                return mask / self.tokens
            case "seq-mean-token-mean":
                return mask / (self.rows * mask.sum(-1, keepdim=True).clamp(min=1))
            case "seq-mean-token-sum":
                return mask / self.rows
            case "seq-sum-constant":
                assert self.constant_length
                return mask / (self.rows * self.constant_length)

    def row_weights(self, action_mask: Tensor) -> Tensor:
        """Weight of each row's term ``[batch]``: the mean over rows that act."""
        return action_mask.any(-1).float() / self.rows

    def reduce(self, terms: Tensor, action_mask: Tensor) -> Tensor:
        """This micro-batch's part of the loss, a scalar; the parts add up to the whole.

        ``terms`` are ``[batch seq]`` or ``[batch]``; whatever they hold off the mask,
        NaN included, has no influence.
        """
        on, weights = action_mask, self.weights(action_mask)
        if terms.dim() == 1:
            on, weights = action_mask.any(-1), self.row_weights(action_mask)
        return (terms.float().where(on, 0.0) * weights).sum()
