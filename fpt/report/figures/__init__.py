"""The figures of pages: dots with intervals, curves, lines, attention maps, and examples of
tasks."""
