"""The one exception that users see."""


class FptError(Exception):
    """A mistake the user can correct, told in one sentence.

    The sentence names what was given, what is allowed, and what to do. The command line prints it
    and exits with status 2; nothing has been written when it is raised.
    """
