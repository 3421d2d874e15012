"""The figures of pages: dots with intervals, curves, lines, and examples of tasks."""
