"""What is learned: the tasks of the paper and those of this project."""

from .comparison import Section

SECTION = Section()
