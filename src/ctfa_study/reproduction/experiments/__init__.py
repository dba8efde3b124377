"""The paper's experiments."""

from ctfa_study.reproduction._case import Experiment
from ctfa_study.reproduction.experiments.generated import FIGURES, SYNTHETIC
from ctfa_study.reproduction.experiments.table1 import TABLE1
from ctfa_study.reproduction.experiments.table2 import TABLE2
from ctfa_study.reproduction.experiments.table3 import TABLE3

#: By the name that the command line knows, in the order of the paper.
EXPERIMENTS: dict[str, Experiment] = {
    one.name: one for one in (SYNTHETIC, FIGURES, TABLE1, TABLE2, TABLE3)
}
