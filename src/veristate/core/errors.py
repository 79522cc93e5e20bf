"""The one tree of errors. Each message says what was wrong, where, and what to do; `exit_code` is the command's."""


class VeristateError(Exception):
    """Anything veristate refuses or fails to do."""

    exit_code = 1


class InputError(VeristateError):
    """What the user gave can't be used: a table, an option, a checkpoint."""

    exit_code = 2


class TamperError(VeristateError):
    """Stored bytes differ from the digest they are stored under, or a chain of records is broken."""

    exit_code = 3


class FaultProvenError(VeristateError):
    """A fault was proven, and nothing is committed by this run."""

    exit_code = 3


class RefusedError(VeristateError):
    """The gateway, a held value or a busy store refused the operation; nothing was changed."""

    exit_code = 4


class UndecidedError(VeristateError):
    """The evidence and the budget do not determine the decision; nothing was committed."""

    exit_code = 5


class EnvironmentUnusableError(VeristateError):
    """This machine can't do it: no space, no permission, a missing extra, an executor that does not qualify."""

    exit_code = 6
