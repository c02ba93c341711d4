"""Tests of the library as people call it: arguments, values, types and documentation."""
