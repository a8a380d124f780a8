"""Refusals of columns that do not depend on one another, told together."""

import contextlib
from collections.abc import Iterator

from pomdpfit._errors import PanelError, PanelErrors


class Refusals:
    """Gathers refusals, so that who mends a file need not run into them one by one."""

    def __init__(self) -> None:
        self._said: list[str] = []

    def __bool__(self) -> bool:
        return bool(self._said)

    @contextlib.contextmanager
    def gathered(self) -> Iterator[None]:
        """What is refused inside is kept for later."""
        try:
            yield
        except PanelErrors as error:
            self._said += error.each
        except PanelError as error:
            self._said.append(str(error))

    def add(self, says: str) -> None:
        """Something to be told with them."""
        self._said.append(says)

    def tell(self) -> None:
        """Raise if there was any: one error, a line for each."""
        if len(self._said) > 1:
            raise PanelErrors(tuple(self._said))
        if self._said:
            raise PanelError(self._said[0])
