"""How the losses of several tasks become one step of a shared network, fourteen ways.

Numbers in, numbers out: a weighting is told the losses, and where it needs them the tasks'
gradients or their inner products, and answers with weights. It knows of no network and no library
for networks.
"""

from ctfa_study.baselines.weightings._by_gradients import GradDrop, MoCo
from ctfa_study.baselines.weightings._by_gram import IMTL, MGDA, CAGrad, GradNorm, NashMTL
from ctfa_study.baselines.weightings._by_losses import (
    DynamicWeightAverage,
    EqualWeighting,
    GeometricLoss,
    RandomWeighting,
    UncertaintyWeighting,
)
from ctfa_study.baselines.weightings._step import Step, Told, Weighting
from ctfa_study.baselines.weightings._surgery import GradVac, PCGrad

#: By name, with the parameters that each has by default.
WEIGHTINGS: dict[str, Weighting] = {
    "equal": EqualWeighting(),
    "random": RandomWeighting(),
    "uncertainty": UncertaintyWeighting(),
    "dwa": DynamicWeightAverage(),
    "geometric": GeometricLoss(),
    "gradnorm": GradNorm(),
    "mgda": MGDA(),
    "pcgrad": PCGrad(),
    "gradvac": GradVac(),
    "graddrop": GradDrop(),
    "cagrad": CAGrad(),
    "imtl": IMTL(),
    "nash": NashMTL(),
    "moco": MoCo(),
}

__all__ = [
    "IMTL",
    "MGDA",
    "WEIGHTINGS",
    "CAGrad",
    "DynamicWeightAverage",
    "EqualWeighting",
    "GeometricLoss",
    "GradDrop",
    "GradNorm",
    "GradVac",
    "MoCo",
    "NashMTL",
    "PCGrad",
    "RandomWeighting",
    "Step",
    "Told",
    "UncertaintyWeighting",
    "Weighting",
]
