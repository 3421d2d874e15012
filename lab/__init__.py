"""What is run by hand and is no part of the library: searches of learning rates, the manifest of
data, the fixture of tests and notebooks, and the pages that are written from code."""
