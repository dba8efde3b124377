"""Rows that come piece by piece, and may go again: all that is kept of them are sums."""

from ctfa._streaming._estimators import Piece, Streaming, StreamingTargets, pieces_of
from ctfa._streaming._sums import RunningSums

__all__ = ["Piece", "RunningSums", "Streaming", "StreamingTargets", "pieces_of"]
