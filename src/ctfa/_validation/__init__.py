"""Turns user input into what the core accepts, or explains why it cannot."""

from ctfa._validation.confounds import *
from ctfa._validation.data import *
from ctfa._validation.folds import *
from ctfa._validation.numbers import *
from ctfa._validation.options import *
from ctfa._validation.own import *
