"""Rows that come piece by piece, and may go again: all that is kept of them are sums."""

from ctfa._streaming._estimators import Piece, Streaming, StreamingTargets, StreamingTasks, going_on
from ctfa._streaming._sums import RunningSums, TaskSums
