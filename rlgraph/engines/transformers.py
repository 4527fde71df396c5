"""Training, scoring and sampling in this process, in plain torch and transformers."""

import contextlib
from collections.abc import Iterator

import torch
from torch import Tensor
from transformers import AutoTokenizer

from rlgraph.engines.decoding import Responses, Sampling, decode, uniforms
from rlgraph.engines.protocols import Weights
from rlgraph.engines.sleep import Holdings, Sleepable
from rlgraph.errors import EngineError
from rlgraph.records import Prompts, Rollout
from rlgraph.settings import PolicyConfig, RunContext
from rlgraph.training.backend import Alone, Head
from rlgraph.training.learner import FrozenModel, Learner
from rlgraph.training.model import (
    Headed,
    PlainModel,
    checkpoint_tensors,
    compute_dtype,
    load,
    load_tensors,
    ready_cpu,
    this_device,
    training_dtype,
)
from rlgraph.training.optimizer import adamw


class TorchBackend:
    """Trainable weights and AdamW in one process.

    The weights are float32 always. With bfloat16 only the matrix products are done
    in it (autocast), since small updates would vanish in bfloat16 weights.
    """

    ranks = Alone()

    def __init__(self, policy: PolicyConfig, head: Head) -> None:
        ready_cpu()
        self.device = this_device()
        self._dtype = training_dtype(policy.trainer.dtype, self.device)
        self._max_norm = policy.trainer.max_grad_norm or torch.inf
        self.model = load(policy.path, head, torch.float32)
        if policy.trainer.gradient_checkpointing:
            self.model.gradient_checkpointing_enable({"use_reentrant": False})
        self._module = Headed(self.model, head).to(self.device).train()
        self._optimizer = adamw(self.model, policy.trainer)

    def forward(self, tokens: Tensor, positions: Tensor) -> Tensor:
        """See :class:`~rlgraph.training.backend.Forward`."""
        with self._precision():
            return self._module(tokens, positions)

    def backward(self, loss: Tensor, *, last: bool) -> None:
        """See :class:`~rlgraph.training.backend.Backend`."""
        loss.backward()

    def step(self, learning_rate: float) -> float:
        """See :class:`~rlgraph.training.backend.Backend`."""
        norm = torch.nn.utils.clip_grad_norm_(self.model.parameters(), self._max_norm)
        if bool(norm.isfinite()):
            for group in self._optimizer.param_groups:
                group["lr"] = learning_rate
            self._optimizer.step()
        self._optimizer.zero_grad(set_to_none=True)
        return float(norm)

    @contextlib.contextmanager
    def _precision(self) -> Iterator[None]:
        if self._dtype == torch.float32:
            yield
        else:
            with torch.autocast(self.device.type, self._dtype):
                yield


class TransformersTrainer(Learner):
    """A policy (``head="lm"``) or a critic (``head="value"``) that learns in this process."""

    def __init__(self, policy: PolicyConfig, context: RunContext, *, head: Head = "lm") -> None:
        self._backend = TorchBackend(policy, head)
        super().__init__(self._backend, head, policy, context)

    def weights(self) -> Weights:
        """The current parameters, float32. On CPU they alias the model: copy to keep."""
        self._holdings.require_awake("weights")
        tensors = checkpoint_tensors(self._backend.model)
        return Weights(self.version, {name: tensor.cpu() for name, tensor in tensors.items()})

    def save(self, folder: str) -> None:
        """Write model and tokenizer in Hugging Face format."""
        self._holdings.require_awake("save")
        self._backend.model.save_pretrained(folder)
        AutoTokenizer.from_pretrained(self.policy.path).save_pretrained(folder)


class TransformersScorer(FrozenModel):
    """A model that is never trained: a reference, or a frozen critic by its head."""

    def __init__(self, policy: PolicyConfig, context: RunContext, *, head: Head = "lm") -> None:
        model = PlainModel(policy.path, head, policy.trainer.dtype)
        super().__init__(model, head, policy, context, Alone())


class TransformersSampler(Sleepable):
    """Samples in this process, from its own copy of the weights.

    A row's random numbers depend on the seed, the weights' version, its prompt's
    group and length, and which of the group's samples it is: never on the other
    rows, so prompts can be split over samplers in any way.
    """

    def __init__(self, policy: PolicyConfig, context: RunContext) -> None:
        ready_cpu()
        device = this_device()
        self._policy = policy
        self._context = context
        self._model = load(policy.path, "lm", compute_dtype(policy.sampler.dtype, device))
        torch.nn.Module.to(self._model, device).eval().requires_grad_(False)
        self._holdings = Holdings(
            f"the TransformersSampler of '{policy.path}'",
            self._model,
            device=device,
            scratch=context.scratch,
        )
        self._tokenizer = AutoTokenizer.from_pretrained(policy.path)
        self._version = 0
        allowed = getattr(self._model.config, "max_position_embeddings", None) or 4096
        self._max_len = policy.sampler.max_model_len or min(allowed, 4096)

    def load_weights(self, weights: Weights) -> None:
        """Copy a trainer's weights.

        Raises:
            EngineError: asleep, or they are those of another architecture; the old ones
                are kept.
        """
        self._holdings.require_awake("load_weights")
        load_tensors(self._model, weights.tensors)
        self._version = weights.version

    def generate(
        self,
        prompts: Prompts,
        *,
        samples: int = 1,
        temperature: float | None = None,
        max_new_tokens: int | None = None,
    ) -> Rollout:
        """``samples`` rows a prompt, side by side, in prompt order.

        None means the policy's own setting. ``temperature=0`` is greedy; its
        log-probabilities are 0.

        Raises:
            EngineError: asleep, an empty prompt, or one that leaves no room for a response.
        """
        self._holdings.require_awake("generate")
        settings = self._policy.sampler
        heat = self._policy.temperature if temperature is None else temperature
        longest = settings.max_new_tokens if max_new_tokens is None else max_new_tokens
        if samples < 1 or longest < 1 or heat < 0:
            raise EngineError(
                f"cannot generate samples={samples}, max_new_tokens={longest}, "
                f"temperature={heat}: counts must be positive, temperature at least 0"
            )
        lengths = [int(length) for length in prompts.attention_mask.sum(-1).tolist()]
        for row, length in enumerate(lengths):
            if not 0 < length < self._max_len:
                raise EngineError(
                    f"prompt {row} (group {int(prompts.group[row])}) has {length} tokens; "
                    f"between 1 and {self._max_len - 1} fit, see max_model_len"
                )
        sampling = Sampling(heat, settings.top_p, settings.top_k, self._ends())
        # Of similar length together, so that little is padded; put back in order below.
        order = sorted(
            ((prompt, sample) for prompt in range(len(prompts)) for sample in range(samples)),
            key=lambda row: lengths[row[0]],
        )
        texts = [prompts.tokens[row, :length].cpu() for row, length in enumerate(lengths)]
        parts: list[tuple[list[int], Responses]] = []
        for start in range(0, len(order), settings.max_sequences):
            chunk = order[start : start + settings.max_sequences]
            asked = sorted({prompt for prompt, _ in chunk})
            keys = [self._key(int(prompts.group[p]), lengths[p], sample) for p, sample in chunk]
            responses = decode(
                self._model,
                [texts[prompt] for prompt in asked],
                [asked.index(prompt) for prompt, _ in chunk],
                [min(longest, self._max_len - lengths[prompt]) for prompt, _ in chunk],
                uniforms(keys, longest),
                sampling,
            )
            parts.append(([prompt * samples + sample for prompt, sample in chunk], responses))
        return self._rollout(prompts, texts, samples, parts)

    def _key(self, group: int, prompt_length: int, sample: int) -> tuple[int, ...]:
        parts = (self._context.seed, self._version, group, prompt_length, sample)
        return tuple(part % 2**64 for part in parts)

    def _ends(self) -> tuple[int, ...]:
        """End-of-sequence tokens: the generation settings' and the tokenizer's."""
        ends = self._model.generation_config.eos_token_id
        found = set(ends if isinstance(ends, list) else [ends]) | {self._tokenizer.eos_token_id}
        return tuple(sorted(end for end in found if end is not None))

    def _rollout(
        self,
        prompts: Prompts,
        texts: list[Tensor],
        samples: int,
        parts: list[tuple[list[int], Responses]],
    ) -> Rollout:
        """Prompts and responses side by side, in the order of the prompts."""
        count = len(texts) * samples
        totals = torch.zeros(count, dtype=torch.long)
        for rows, responses in parts:
            owners = [row // samples for row in rows]
            totals[rows] = responses.lengths + torch.tensor([len(texts[o]) for o in owners])
        width = int(totals.max()) if count else 0
        tokens = torch.zeros(count, width, dtype=torch.long)
        action_mask = torch.zeros(count, width, dtype=torch.bool)
        logprobs = torch.zeros(count, width)
        truncated = torch.zeros(count, dtype=torch.bool)
        answers: list[list[int]] = [[] for _ in range(count)]
        for rows, responses in parts:
            truncated[rows] = ~responses.ended
            for number, row in enumerate(rows):
                prompt, size = texts[row // samples], int(responses.lengths[number])
                place = slice(len(prompt), len(prompt) + size)
                tokens[row, : len(prompt)] = prompt
                tokens[row, place] = responses.tokens[number, :size]
                logprobs[row, place] = responses.logprobs[number, :size]
                action_mask[row, place] = True
                answers[row] = responses.tokens[number, :size].tolist()
        return Rollout(
            tokens=tokens,
            attention_mask=torch.arange(width) < totals.unsqueeze(-1),
            action_mask=action_mask,
            logprobs=logprobs,
            group=prompts.group.cpu().repeat_interleave(samples),
            truncated=truncated,
            policy_version=torch.full((count,), self._version, dtype=torch.long),
            response=[
                str(self._tokenizer.decode(ids, skip_special_tokens=True)) for ids in answers
            ],
            columns=[dict(columns) for columns in prompts.columns for _ in range(samples)],
            batch_size=[count],
        )
