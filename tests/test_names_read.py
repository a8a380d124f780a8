"""Which parameters a function reads."""

import numpy as np
import pytest

from pomdpfit._names_read import names_read

THETA = {"RC": 1.0, "cost": np.array([1.0, 2.0]), "discount": 0.9}


@pytest.mark.parametrize(
    ("function", "read"),
    [
        (lambda theta: theta["RC"] + theta["cost"].sum(), {"RC", "cost"}),
        (lambda theta: 3.0, set()),
        (lambda theta: len(theta), set()),
        (lambda theta: theta["RC"] * theta["RC"], {"RC"}),
        (lambda theta: theta.get("discount"), {"discount"}),
        (lambda theta: "cost" in theta, {"cost"}),
        (lambda theta: list(theta), set(THETA)),
        (lambda theta: dict(theta), set(THETA)),
        (lambda theta: {**theta}, set(THETA)),
        (lambda theta: sum(map(np.sum, theta.values())), set(THETA)),
        (lambda theta: [v for k, v in theta.items() if k == "RC"], set(THETA)),
        (lambda theta: theta == {"RC": 1.0}, set(THETA)),
    ],
)
def test_what_is_looked_up_is_told(function, read):
    assert names_read(function, THETA) == read


def test_the_function_sees_the_values():
    seen = []
    names_read(lambda theta: seen.append(theta["cost"]), THETA)
    assert seen[0] is THETA["cost"]


def test_what_a_helper_reads_counts_too():
    helper = lambda theta: theta["discount"]
    assert names_read(lambda theta: theta["RC"] + helper(theta), THETA) == {"RC", "discount"}


def test_a_name_that_is_not_there_is_not_read():
    read = names_read(lambda theta: theta.get("absent", 0.0) + theta["RC"], THETA)
    assert read == {"RC"}


def test_an_error_of_the_function_is_its_own():
    with pytest.raises(KeyError, match="absent"):
        names_read(lambda theta: theta["absent"], THETA)
