"""Arrays, frames, Dask collections and arrays on devices, read as the sums that a fit needs.

Nothing else knows Dask; arrays of other libraries are known here as data, and to the kernels as
devices by their names. What sums cannot answer (missing values, penalised
fits, regressors that are no least squares) is asked of the rows themselves, which are gathered up
to ``ROWS_LIMIT``.
"""

from ctfa._collections._answers import answers_lazily, r2_of_collection
from ctfa._collections._collection import (
    OF_SUMS,
    ROWS_LIMIT,
    SUMS_LIMIT,
    Collection,
    Read,
    Rows,
    few_rows,
    is_collection,
    learns_from_sums,
    stand_in,
)
from ctfa._collections._dask import compute, is_dask
from ctfa._collections._devices import is_foreign, to_numpy
from ctfa._collections._folds import TEST, TRAIN, Classes, Wanted
from ctfa._collections._summing import Sums, joined
from ctfa._collections._tasks import (
    TaskCollection,
    TaskSample,
    apart,
    as_array_of,
    deal_tasks,
    is_lazy,
    means_of_strangers,
    predict_tasks,
    r2_of_tasks,
    splits_of,
    stand_in_tasks,
)
