"""How raw readings become a panel: the choices that published numbers depend on."""

import dataclasses

from pomdpfit._errors import DatasetError

_EXCESS = ("keep", "lump", "drop")
_AFTER = ("ceil", "floor", "skip")


@dataclasses.dataclass(frozen=True)
class Conventions:
    """What is scored, and how mileage is counted.

    excess             increments above `largest`: "keep" them as they are; "lump" them, so that
                       they count as `largest` (mileage is then lower by the rest until the next
                       replacement); "drop" them: the month is not scored and tells the agent
                       nothing, and mileage stays what it was
    after_replacement  the mileage of the month after a replacement: scored as an increment from
                       zero, rounded up to the cell ("ceil", Rust's) or down to the bin ("floor"),
                       or not at all ("skip": under the paper's kernel the reset is certain)
    first_choice       whether the first month's choice of a bus is scored
    """

    excess: str = "keep"
    largest: int = 3
    after_replacement: str = "ceil"
    first_choice: bool = False

    def __post_init__(self) -> None:
        for name, allowed in (("excess", _EXCESS), ("after_replacement", _AFTER)):
            if getattr(self, name) not in allowed:
                raise DatasetError(
                    f"{name} must be one of {allowed}, but it is {getattr(self, name)!r}."
                )
        if type(self.largest) is not int or self.largest < 1:
            raise DatasetError(
                f"largest must be a whole number of at least 1, but it is {self.largest!r}."
            )
        if type(self.first_choice) is not bool:
            raise DatasetError(f"first_choice must be a bool, but it is {self.first_choice!r}.")

    @property
    def reset(self) -> str:
        """The option of the engine models that goes with them."""
        return "at_zero" if self.after_replacement == "skip" else "increment"

    def __str__(self) -> str:
        excess = {
            "keep": "all increments",
            "lump": f"increments above {self.largest} lumped",
            "drop": f"increments above {self.largest} dropped",
        }[self.excess]
        after = {
            "ceil": "scored, rounded up",
            "floor": "scored, rounded down",
            "skip": "not scored",
        }[self.after_replacement]
        first = "scored" if self.first_choice else "not scored"
        return f"{excess}; month after a replacement {after}; first choice {first}"


RUST = Conventions()
"""Those under which the digits of Rust (1987) come out."""

CHANG = Conventions(excess="lump", after_replacement="skip", first_choice=True)
"""Those of Chang, Garcia, Wang and Sun as far as their paper tells: a certain reset, increments 0
to 3, every choice scored."""
