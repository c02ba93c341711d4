"""Matches DataFrames: the operator, the SQL function, and what runs in Spark's Python workers."""
