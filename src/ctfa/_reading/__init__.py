"""Turns user input into what the core accepts, or explains why it cannot."""

from ctfa._reading.confounds import *
from ctfa._reading.data import *
from ctfa._reading.folds import *
from ctfa._reading.numbers import *
from ctfa._reading.options import *
from ctfa._reading.own import *
