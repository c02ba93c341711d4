"""Cases that nobody here wrote, against every matcher of the project. They are read from the folder of shared data."""
