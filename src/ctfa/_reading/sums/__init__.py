"""Arrays, frames, Dask collections and arrays on devices, read as the sums that a fit needs.

Nothing else knows Dask; arrays of other libraries are known here as data, and to the kernels as
devices by their names. What sums cannot answer (missing values, penalised
fits, regressors other than least squares) is asked of the rows themselves, which are gathered up
to ``ROWS_LIMIT``.
"""

from ctfa._reading.sums._dask import *
from ctfa._reading.sums.answers import *
from ctfa._reading.sums.collection import *
from ctfa._reading.sums.devices import *
from ctfa._reading.sums.folds import *
from ctfa._reading.sums.sums import *
from ctfa._reading.sums.tasks import *
