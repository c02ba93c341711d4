"""Runs other projects' test cases, from the folder of shared data, against every matcher of this project."""
