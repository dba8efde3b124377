"""Rows that come piece by piece, and may go again: all that is kept of them are sums."""

from ctfa._streaming._estimators import (
    Piece,
    Streaming,
    StreamingTargets,
    going_on,
    pieces_of,
)
from ctfa._streaming._sums import RunningSums
from ctfa._streaming._task_sums import TaskSums
from ctfa._streaming._tasks import StreamingTasks

__all__ = [
    "Piece",
    "RunningSums",
    "Streaming",
    "StreamingTargets",
    "StreamingTasks",
    "TaskSums",
    "going_on",
    "pieces_of",
]
