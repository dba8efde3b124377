"""A neural network whose hidden layers all tasks share."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
from sklearn.utils import check_random_state

from ctfa.core.types import FloatArray
from ctfa_study.baselines._shared import SharedRowsRegressor
from ctfa_study.baselines._tasks import read_at_least_zero, read_count, read_positive
from ctfa_study.baselines._torch_training import (
    Course,
    first_layers,
    read_device,
    run_layers,
    train,
)
from ctfa_study.baselines.weightings import WEIGHTINGS, Weighting


class HardSharingRegressor(SharedRowsRegressor):
    """Hard parameter sharing: hidden layers for all tasks, a linear head for each.

    A multi-layer perceptron with rectifiers, trained by Adam on batches (Caruana 1997). What the
    tasks share moves along a combination of their gradients, and ``weighting`` says which: fourteen
    ways from the literature, the sum of the losses being the plainest. The loss of a task is its
    mean squared error in standard units of its training values.

    Training needs torch (``pip install 'ctfa[torch]'``), in single precision, on a GPU where there
    is one; a fitted model predicts without.

    Parameters
    ----------
    hidden : tuple of int, default=(128, 128)
        Units of each shared layer, one layer at least.
    weighting : str or Weighting, default="equal"
        How the losses become one step: "equal", "random" (Lin et al. 2022), "uncertainty" (Kendall
        et al. 2018), "dwa" (Liu et al. 2019), "geometric" (Chennupati et al. 2019), "gradnorm"
        (Chen et al. 2018), "mgda" (Sener and Koltun 2018), "pcgrad" (Yu et al. 2020), "gradvac"
        (Wang et al. 2021), "graddrop" (Chen et al. 2020), "cagrad" (Liu et al. 2021), "imtl" (Liu
        et al. 2021), "nash" (Navon et al. 2022), "moco" (Fernando et al. 2023); or one of
        ``ctfa_study.baselines.weightings`` with parameters, such as ``CAGrad(0.2)``.
    epochs : int, default=200
        Times that all rows are gone through.
    batch_size : int, default=200
        Rows in a batch at most; batches of an epoch are of nearly equal size.
    learning_rate : float, default=1e-3
        Of Adam, and of what a weighting learns.
    weight_decay : float, default=0.0
        Penalty of Adam on all parameters.
    device : str, default="auto"
        "auto": "cuda" where there is one, else "cpu"; or a device of torch.
    random_state : int, RandomState instance or None, default=None
        For first weights, batches and random weightings. The same number gives the same model on
        the same device.

    Attributes
    ----------
    loss_curve_ : ndarray of shape (epochs, n_tasks)
        Loss of each task in each epoch, in standard units, the mean over its batches as they were
        met.
    weights_curve_ : ndarray of shape (epochs, n_tasks)
        Weight of each task in the step of what is shared, the mean over batches. With "graddrop"
        the part of its gradient that passes, with "moco" its weight among followed gradients.
    layers_ : list of (ndarray, ndarray)
        Weights (in, out) and biases, in standard units; the last are the heads, a column each.
    device_ : str
        Where it was trained.
    n_parameters_ : int
        Numbers learnt.

    References
    ----------
    Caruana (1997), Multitask learning, Machine Learning 28. Those of the weightings are in
    ``ctfa_study.baselines.weightings``.

    Examples
    --------
    >>> from ctfa_study.baselines import HardSharingRegressor
    >>> from ctfa.datasets import make_paper_synthetic
    >>> X, Y = make_paper_synthetic(60, 5, 3, random_state=0)
    >>> model = HardSharingRegressor((16,), weighting="pcgrad", epochs=20, random_state=0)
    >>> model.fit(X, Y).predict(X).shape  # doctest: +SKIP
    (60, 3)
    """

    def __init__(
        self,
        hidden: Any = (128, 128),
        *,
        weighting: Any = "equal",
        epochs: int = 200,
        batch_size: int = 200,
        learning_rate: float = 1e-3,
        weight_decay: float = 0.0,
        device: str = "auto",
        random_state: Any = None,
    ) -> None:
        self.hidden = hidden
        self.weighting = weighting
        self.epochs = epochs
        self.batch_size = batch_size
        self.learning_rate = learning_rate
        self.weight_decay = weight_decay
        self.device = device
        self.random_state = random_state

    def _fit_shared(self, inputs: FloatArray, targets: FloatArray) -> None:
        hidden = _read_hidden(self.hidden)
        course = Course(
            _read_weighting(self.weighting),
            read_count(self.epochs, "epochs"),
            read_count(self.batch_size, "batch_size"),
            read_positive(self.learning_rate, "learning_rate"),
            read_at_least_zero(self.weight_decay, "weight_decay"),
            read_device(self.device),
        )
        seed = check_random_state(self.random_state).randint(np.iinfo(np.int32).max)
        rng = np.random.default_rng(seed)
        self._mean_inputs, self._unit_inputs = _units(inputs)
        self._mean_targets, self._unit_targets = _units(targets)
        sizes = [inputs.shape[1], *hidden, targets.shape[1]]
        trained = train(
            (inputs - self._mean_inputs) / self._unit_inputs,
            (targets - self._mean_targets) / self._unit_targets,
            first_layers(sizes, rng),
            course,
            rng,
        )
        self.layers_ = trained.layers
        self.loss_curve_ = trained.losses
        self.weights_curve_ = trained.weights
        self.device_ = trained.device
        self.n_parameters_ = sum(layer.weights.size + layer.bias.size for layer in trained.layers)

    def _predict_shared(self, inputs: FloatArray) -> FloatArray:
        standard = (inputs - self._mean_inputs) / self._unit_inputs
        return run_layers(self.layers_, standard) * self._unit_targets + self._mean_targets


def _units(values: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Mean and standard deviation of each column; 1 where it does not vary."""
    mean, deviation = values.mean(axis=0), values.std(axis=0)
    # The mean of a constant is off by rounding, once per row at most.
    rounding = (values.shape[0] + 10.0) * np.finfo(float).eps
    return mean, np.where(deviation <= rounding * np.abs(mean), 1.0, deviation)


def _read_hidden(hidden: Any) -> list[int]:
    sizes = [] if isinstance(hidden, str) or not isinstance(hidden, Iterable) else list(hidden)
    if not sizes:
        raise ValueError(
            f"hidden={hidden!r} is not a tuple of counts: pass the units of each shared layer, "
            "such as (128, 128), one layer at least."
        )
    return [read_count(size, "hidden") for size in sizes]


def _read_weighting(weighting: Any) -> Weighting:
    if isinstance(weighting, Weighting):
        return weighting
    if isinstance(weighting, str) and weighting in WEIGHTINGS:
        return WEIGHTINGS[weighting]
    known = ", ".join(repr(name) for name in WEIGHTINGS)
    raise ValueError(
        f"weighting={weighting!r} is not known; use one of {known}, or a Weighting of "
        "ctfa_study.baselines.weightings with parameters of your own."
    )
