"""Does aggregation pay? Every method on the same splits; the protocol is in README.md."""

#: Part of the key of every stored row: raise it when families, splits or rules change.
PROTOCOL = "3"
