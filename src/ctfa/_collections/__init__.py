"""Arrays, frames, Dask collections and arrays on devices, read as the sums that a fit needs.

Nothing else knows Dask; arrays of other libraries are known here as data, and to the kernels as
devices by their names. What sums cannot answer (missing values, penalised
fits, regressors other than least squares) is asked of the rows themselves, which are gathered up
to ``ROWS_LIMIT``.
"""

from ctfa._collections._answers import *
from ctfa._collections._collection import *
from ctfa._collections._dask import *
from ctfa._collections._devices import *
from ctfa._collections._folds import *
from ctfa._collections._sums import *
from ctfa._collections._tasks import *
