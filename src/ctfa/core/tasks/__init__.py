"""Kinds of tasks: with shared inputs, with inputs of their own, or with rows of their own."""
