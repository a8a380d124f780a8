"""Exceptions that carry advice, and the outcome of a solver as a value."""

import enum
from collections.abc import Callable


class PomdpfitError(Exception):
    """Base class of every error that this package raises on purpose."""


class ModelError(PomdpfitError, ValueError):
    """The model's primitives or parameters are not what they must be."""


class PanelError(PomdpfitError, ValueError):
    """The data cannot be read as a panel; the message names row, agent, period and column."""


class PanelErrors(PanelError):
    """Several such refusals of one table: `each` of them is a line of the message."""

    def __init__(self, each: tuple[str, ...]) -> None:
        super().__init__(each)
        self.each = each

    def __str__(self) -> str:
        return "\n".join(self.each)


class DatasetError(PomdpfitError, ValueError):
    """A data set that is not there, or not what it should be; the message has the checksum."""


class PomdpFileError(PomdpfitError, ValueError):
    """A .POMDP file that cannot be read; the message has line and column, and so has the error."""

    def __init__(self, message: str, line: int | None = None, column: int | None = None) -> None:
        super().__init__(message)
        self.line, self.column = line, column


class ImpossibleObservationError(PomdpfitError, ValueError):
    """The panel holds a transition to which the model gives probability zero.

    Searches meet many of these and read none: the message may come as a function that makes it.
    """

    def __init__(self, message: str | Callable[[], str]) -> None:
        super().__init__(message)
        self._message = message

    def __str__(self) -> str:
        """The message, made when it is first asked for."""
        if not isinstance(self._message, str):
            self._message = self._message()
        return self._message

    def __reduce__(self) -> tuple:
        """Other processes get the words."""
        return type(self), (str(self),)


class SolveError(PomdpfitError, RuntimeError):
    """The soft Bellman equation was not solved to the tolerance asked for."""


class GridTooLargeError(PomdpfitError, MemoryError):
    """A belief grid would need more memory than the machine has."""


class EstimationError(PomdpfitError, ValueError):
    """An estimate, a test or a comparison that cannot be had; the message says why."""


class WorkerError(PomdpfitError, RuntimeError):
    """A process that work was given to has died; the message says what is kept and the mend."""


class WriteError(PomdpfitError, OSError):
    """A file that cannot be written: no room, or no right to; the message names it."""


class ReportError(PomdpfitError, OSError):
    """A report that cannot be written; the message names the place."""


class ConvergenceWarning(UserWarning):
    """An estimate should not be used as it stands; the message says why."""


class IdentificationWarning(UserWarning):
    """The model cannot tell two of its hidden states apart; the message names them."""


class InferenceWarning(UserWarning):
    """Standard errors rest on too few agents, or are missing; the message says why."""


class MissingExtraError(PomdpfitError, ImportError):
    """An optional package is not installed; the message names the extra that brings it."""


class PrecisionError(PomdpfitError, RuntimeError):
    """64-bit floats are switched off in JAX."""


class Result(enum.IntEnum):
    """How an iteration, or a search for a maximum, ended."""

    CONVERGED = 0
    MAX_STEPS = 1
    NOT_FINITE = 2
    STALLED = 3
    NOT_A_MAXIMUM = 4
    FLAT = 5

    def advice(self) -> str:
        """What to do about it, in a sentence."""
        return {
            Result.CONVERGED: "The residual is below the tolerance.",
            Result.MAX_STEPS: "Raise max_steps, or use the Newton solver if this was not it.",
            Result.NOT_FINITE: (
                "A value became infinite or NaN: check the rewards for extreme values and the "
                "discount for being below one."
            ),
            Result.STALLED: (
                "No step along the gradient raises the log-likelihood further, though the gradient "
                "is not zero: the model may have a kink there, or the grid may be too coarse."
            ),
            Result.NOT_A_MAXIMUM: (
                "The gradient vanishes but the Hessian has a direction of increase: a saddle. Try "
                "more starts."
            ),
            Result.FLAT: (
                "These data do not identify it: fix a parameter, or add a restriction or data."
            ),
        }[self]
