"""Whose data it is: tasks that share inputs, have inputs of their own, or rows of their own."""
