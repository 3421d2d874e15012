"""The registered claims, one registration a profile: their runs, their tests and their
verdicts."""
