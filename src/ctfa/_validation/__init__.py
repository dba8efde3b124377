"""User input into what the core accepts, and the words for what it does not."""

from ctfa._validation.confounds import *
from ctfa._validation.data import *
from ctfa._validation.folds import *
from ctfa._validation.numbers import *
from ctfa._validation.options import *
from ctfa._validation.own import *
