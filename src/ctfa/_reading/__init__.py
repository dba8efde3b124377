"""User input into what the core accepts, and the words for what it does not."""

from ctfa._reading.confounds import *
from ctfa._reading.data import *
from ctfa._reading.folds import *
from ctfa._reading.numbers import *
from ctfa._reading.options import *
from ctfa._reading.own import *
