"""Training of a network that tasks share, by torch, which is imported here alone."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np

from ctfa.core.libraries import imported
from ctfa.core.types import FloatArray
from ctfa_study.baselines.weightings import Step, Told, Weighting


class Layer(NamedTuple):
    """Values ``inputs @ weights + bias``."""

    weights: FloatArray  # (in, out)
    bias: FloatArray  # (out,)


@dataclass(frozen=True, eq=False)
class Course:
    """How long and by what steps."""

    weighting: Weighting
    epochs: int
    batch_size: int
    learning_rate: float
    weight_decay: float
    device: str


class Trained(NamedTuple):
    """The network, and what it went through."""

    layers: list[Layer]  # the shared ones, and the heads of all tasks side by side
    losses: FloatArray  # (epochs, K), mean over batches
    weights: FloatArray  # (epochs, K), mean over batches
    device: str


def load_torch() -> Any:
    """Torch, or a word on where to get it."""
    return imported("torch", "HardSharingRegressor trains with torch: pip install 'ctfa[torch]'")


def read_device(device: Any) -> str:
    """A device that is there; "auto" is CUDA's where there is one."""
    torch = load_torch()
    if device == "auto":
        return "cuda" if torch.cuda.is_available() else "cpu"
    try:
        torch.empty(0, device=device)
    except (RuntimeError, TypeError, AssertionError) as error:
        reason = str(error).partition("\n")[0]
        raise ValueError(
            f"device={device!r} cannot be used ({reason}): pass 'auto', 'cpu', or a device that "
            "torch sees here, such as 'cuda'."
        ) from error
    return str(device)


def first_layers(sizes: list[int], rng: np.random.Generator) -> list[Layer]:
    """Random layers: He's uniform weights where a rectifier follows, zero biases."""
    layers = []
    for number, (n_in, n_out) in enumerate(pairwise(sizes)):
        is_head = number == len(sizes) - 2
        bound = np.sqrt((1.0 if is_head else 6.0) / n_in)
        layers.append(Layer(rng.uniform(-bound, bound, (n_in, n_out)), np.zeros(n_out)))
    return layers


def run_layers(layers: list[Layer], inputs: FloatArray) -> FloatArray:
    """What the network predicts; no torch is needed for it."""
    values = inputs
    for layer in layers[:-1]:
        values = np.maximum(values @ layer.weights + layer.bias, 0.0)
    return np.asarray(values @ layers[-1].weights + layers[-1].bias)


def train(
    inputs: FloatArray,
    targets: FloatArray,
    layers: list[Layer],
    course: Course,
    rng: np.random.Generator,
) -> Trained:
    """Train the layers given, in single precision and on one device, to which all rows go once.

    Random numbers come from ``rng`` and a generator of the device that it seeds; nothing global
    is touched.
    """
    torch = load_torch()
    network = Network(torch, layers, course)
    X, Y = network.tensor(inputs), network.tensor(targets)
    n_rows, n_tasks = targets.shape
    batches = torch.Generator(device=course.device).manual_seed(int(rng.integers(2**31)))
    state = course.weighting.start(n_tasks)
    losses, weights = np.empty((course.epochs, n_tasks)), np.empty((course.epochs, n_tasks))
    # Batches of nearly equal size: a last one of few rows would count as much as a whole one.
    n_batches = -(-n_rows // min(course.batch_size, n_rows))
    for epoch in range(course.epochs):
        order = torch.randperm(n_rows, generator=batches, device=course.device)
        seen, counted = np.zeros(n_tasks), np.zeros(n_tasks)
        for rows in torch.tensor_split(order, n_batches):
            told = network.look(X[rows], Y[rows], losses[:epoch], rng)
            _require_finite(told, epoch, course)
            step, state = course.weighting.weigh(told, state)
            network.follow(step)
            seen += told.losses
            counted += step.weights
        losses[epoch], weights[epoch] = seen / n_batches, counted / n_batches
    return Trained(network.read(), losses, weights, course.device)


def _require_finite(told: Told, epoch: int, course: Course) -> None:
    """Refuse to go on without numbers, before a weighting fails on them in words of its own."""
    known = (told.losses, told.gram, told.gradients, told.pulls)
    if not all(np.isfinite(part).all() for part in known if part is not None):
        raise ValueError(
            f"training diverged in epoch {epoch + 1}: losses or gradients are no longer finite. "
            f"Lower learning_rate={course.learning_rate:g}, or choose another weighting."
        )


class Network:
    """A trunk that all tasks share and a linear head for each, looked at and then moved."""

    def __init__(self, torch: Any, layers: list[Layer], course: Course) -> None:
        self.torch, self.course = torch, course
        flat = [self.tensor(part).requires_grad_() for layer in layers for part in layer]
        self.trunk, self.heads = flat[:-2], flat[-2:]
        self.optimizer = torch.optim.Adam(
            flat, lr=course.learning_rate, weight_decay=course.weight_decay
        )

    def tensor(self, values: FloatArray) -> Any:
        """Move numbers to the device."""
        return self.torch.as_tensor(values, dtype=self.torch.float32, device=self.course.device)

    def read(self) -> list[Layer]:
        """Bring the layers back."""
        values = [part.detach().cpu().numpy().astype(float) for part in (*self.trunk, *self.heads)]
        return [Layer(*pair) for pair in zip(values[::2], values[1::2], strict=True)]

    def look(self, X: Any, Y: Any, past: FloatArray, rng: np.random.Generator) -> Told:
        """Go through a batch, and tell what the weighting needs."""
        values = X
        for weights, bias in zip(self.trunk[::2], self.trunk[1::2], strict=True):
            values = self.torch.relu(values @ weights + bias)
        self.values = values
        self.left = values @ self.heads[0] + self.heads[1] - Y
        self.losses = (self.left**2).mean(dim=0)
        needs = self.course.weighting.needs
        rate = self.course.learning_rate
        if needs == "losses":
            return Told(self._numbers(self.losses), past, learning_rate=rate, rng=rng)
        if needs == "activations":
            losses, pulls = self._together(self.losses, self._pulls())
            return Told(losses, past, pulls=pulls, learning_rate=rate, rng=rng)
        self.gradients = self._gradients()
        if needs == "gradients":
            losses, gradients = self._together(self.losses, self.gradients)
            return Told(losses, past, gradients=gradients, learning_rate=rate, rng=rng)
        # In double precision: inner products of nearly parallel gradients are differenced.
        exact = self.gradients.double()
        losses, gram = self._together(self.losses.double(), exact @ exact.T)
        return Told(losses, past, gram=gram, learning_rate=rate, rng=rng)

    def follow(self, step: Step) -> None:
        """Move everything one step as the weighting answers."""
        needs = self.course.weighting.needs
        grad = self.torch.autograd.grad
        own = self.tensor(step.own)
        if needs == "losses":
            parts = grad(self.losses, [*self.trunk, *self.heads], own)
        elif needs == "activations":
            heads = grad(self.losses, self.heads, own, retain_graph=True)
            # A linear head's gradient in the representation is an outer product, so what passes
            # of each task is a product with the parts of its head that pass.
            passing = self._slopes() @ (self.heads[0].detach() * self.tensor(step.shared).T).T
            parts = [*grad(self.values, self.trunk, passing), *heads]
        else:
            shared = self.tensor(step.shared)
            moved = shared @ self.gradients if needs == "gram" else shared
            sizes = [part.numel() for part in self.trunk]
            parts = [
                piece.reshape(part.shape)
                for piece, part in zip(moved.split(sizes), self.trunk, strict=True)
            ]
            parts += grad(self.losses, self.heads, own)
        for parameter, part in zip((*self.trunk, *self.heads), parts, strict=True):
            parameter.grad = part
        self.optimizer.step()

    def _slopes(self) -> Any:
        """Derivatives of each task's loss in its predictions, (n, K)."""
        return 2.0 / self.left.shape[0] * self.left.detach()

    def _pulls(self) -> Any:
        """Gradients in the representation times its sign, summed over the batch, (K, h)."""
        return (self.values.detach().sign().T @ self._slopes() * self.heads[0].detach()).T

    def _gradients(self) -> Any:
        """Gradients of all losses in the shared parameters, (K, p), by one batched pass."""
        n_tasks = self.losses.shape[0]
        each = self.torch.eye(n_tasks, device=self.course.device)
        parts = self.torch.autograd.grad(
            self.losses, self.trunk, each, retain_graph=True, is_grads_batched=True
        )
        return self.torch.cat([part.reshape(n_tasks, -1) for part in parts], dim=1)

    def _numbers(self, values: Any) -> FloatArray:
        return np.asarray(values.detach().cpu().numpy(), dtype=float)

    def _together(self, losses: Any, table: Any) -> tuple[FloatArray, FloatArray]:
        """Bring losses and a table with a row for each task here in one transfer."""
        both = self._numbers(self.torch.cat([losses.detach()[:, None], table], dim=1))
        return both[:, 0], both[:, 1:]
