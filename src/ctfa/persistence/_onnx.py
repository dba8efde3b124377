"""A linear model for other programs: one matrix product in the format of ONNX."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

from ctfa._text import write_whole
from ctfa.core.libraries import imported
from ctfa.estimators.collapsed import collapse

#: Versions of the format that are old enough for runtimes in use.
OPSET, IR_VERSION = 13, 8


def to_onnx(model: Any, path: str | os.PathLike[str] | None = None) -> Any:
    """Export a model with linear regressors to ONNX: ``X @ coef.T + intercept``.

    Parameters
    ----------
    model : CTFARegressor, CTFARegressorCV, MultiInputCTFARegressor or PooledCTFARegressor
        Fitted, with linear regressors (see ``collapse``). The export is for rows without missing
        values. Of a ``PooledCTFARegressor`` every column of the output is a task.
    path : str or path, default=None
        Where to write it; None writes nothing.

    Returns
    -------
    onnx.ModelProto
        One product of matrices, from ``"X"`` of shape (n, n_features) to ``"Y"`` of shape
        (n, n_targets), both float64. Names of features and targets, as JSON, and the version of
        ctfa are in its metadata.

    Examples
    --------
    >>> from ctfa import CTFARegressor
    >>> from ctfa.datasets import make_paper_synthetic
    >>> from ctfa.persistence import to_onnx
    >>> X, Y = make_paper_synthetic(n_samples=150, n_features=20, n_targets=6, random_state=0)
    >>> exported = to_onnx(CTFARegressor().fit(X, Y))  # doctest: +SKIP
    """
    onnx = imported("onnx", "to_onnx needs onnx: pip install ctfa[onnx]")
    table = collapse(model)
    n_targets, n_features = table.coef.shape
    helper, double = onnx.helper, onnx.TensorProto.DOUBLE
    graph = helper.make_graph(
        [helper.make_node("Gemm", ["X", "coef", "intercept"], ["Y"], transB=1)],
        "ctfa",
        [helper.make_tensor_value_info("X", double, ["n", n_features])],
        [helper.make_tensor_value_info("Y", double, ["n", n_targets])],
        [
            onnx.numpy_helper.from_array(table.coef, "coef"),
            onnx.numpy_helper.from_array(table.intercept, "intercept"),
        ],
    )
    version = str(sys.modules["ctfa"].__version__)
    exported = helper.make_model(
        graph,
        opset_imports=[helper.make_opsetid("", OPSET)],
        producer_name="ctfa",
        producer_version=version,
        ir_version=IR_VERSION,
    )
    helper.set_model_props(
        exported,
        {
            "ctfa_version": version,
            "model": type(model).__name__,
            "feature_names": json.dumps(table.feature_names),
            "target_names": json.dumps(table.target_names),
        },
    )
    onnx.checker.check_model(exported)
    if path is not None:
        write_whole(exported.SerializeToString(deterministic=True), Path(path))
    return exported
