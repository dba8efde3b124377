"""Does aggregation pay? Every method on generated families and real sets; see README.md."""

#: Part of the key of every stored row: raise it when families, splits or rules change.
PROTOCOL = "7"
