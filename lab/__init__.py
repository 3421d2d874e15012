"""What is run by hand and is no part of the library: searches of learning rates; the data's manifest;
the fixture of tests and notebooks; pages of the documentation that are written from code."""
