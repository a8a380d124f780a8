"""Linear restrictions as text: what is read, and what is refused."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pomdpfit._errors import ModelError
from pomdpfit._restrictions import parse_restrictions

# Names inside one another, names with blanks and signs in their labels.
NAMES = [
    "RC",
    "RC2",
    "cost",
    "cost_2",
    "increment[good, 0]",
    "increment[good, 01]",
    "increment[bad, 0]",
    "share[a-b, c+d]",
    "x0[1]",
]


def row(**at) -> np.ndarray:
    """A row over NAMES from k=coefficient pairs, written n0=..., n3=..."""
    out = np.zeros(len(NAMES))
    for key, value in at.items():
        out[int(key[1:])] = value
    return out


@pytest.mark.parametrize(
    ("text", "slope", "level"),
    [
        ("RC = 10", row(n0=1), 10),
        ("RC2 = RC", row(n1=1, n0=-1), 0),
        ("cost_2=cost", row(n3=1, n2=-1), 0),
        ("increment[good, 0] = increment[bad, 0]", row(n4=1, n6=-1), 0),
        ("increment[good, 01] = increment[good, 0]", row(n5=1, n4=-1), 0),
        ("share[a-b, c+d] - x0[1] = 0", row(n7=1, n8=-1), 0),
        ("2 * RC = cost + 1", row(n0=2, n2=-1), 1),
        ("RC * 2 = 1 + cost", row(n0=2, n2=-1), 1),
        ("RC / 4 = 1 / 8", row(n0=0.25), 0.125),
        ("-RC = +3", row(n0=-1), 3),
        ("--RC = -(-3)", row(n0=1), 3),
        ("RC = 1e-3", row(n0=1), 1e-3),
        ("RC = 2.5E+2", row(n0=1), 250),
        ("1e2*RC = .5", row(n0=100), 0.5),
        ("-(2 * (RC - 3) - cost) / 4e-1 = 1", row(n0=-5, n2=2.5), -14),
        ("2 * 3 * RC * 0.5 = 6", row(n0=3), 6),
        ("RC + RC = RC + 1", row(n0=1), 1),
        ("10 = RC", row(n0=-1), -10),
        ("(RC + cost) * (3 - 1) = 0 * cost_2", row(n0=2, n2=2), 0),
        ("  RC\t=\t1  ", row(n0=1), 1),
    ],
)
def test_an_equation_is_read(text, slope, level):
    found = parse_restrictions(text, NAMES)
    assert found.texts == (text,)
    # Each case takes a few operations on numbers below 250.
    np.testing.assert_allclose(found.matrix, [slope], rtol=1e-15, atol=1e-15)
    np.testing.assert_allclose(found.value, [level], rtol=1e-15, atol=1e-13)


def test_several_equations_keep_their_order():
    texts = ["RC = 1", "cost = 2", "RC = cost"]
    found = parse_restrictions(texts, NAMES)
    np.testing.assert_array_equal(found.matrix, [row(n0=1), row(n2=1), row(n0=1, n2=-1)])
    np.testing.assert_array_equal(found.value, [1, 2, 0])
    assert found.texts == tuple(texts)


def test_no_equations_are_an_empty_system():
    found = parse_restrictions([], NAMES)
    assert found.matrix.shape == (0, len(NAMES))
    assert found.value.shape == (0,)


# Whole numbers over 64, so that text and sums are exact and only products round.
COEFFICIENT = st.integers(-640, 640).map(lambda k: k / 64)


def _term(draw, name: str, factor: float) -> str:
    return draw(
        st.sampled_from(
            [
                f"{factor!r} * {name}",
                f"{name} * {factor!r}",
                f"({factor!r}) * ({name})",
                f"-({-factor!r} * {name})",
                f"{4 * factor!r} * {name} / 4",
                f"{factor:.17e}*{name}",
            ]
        )
    )


@st.composite
def equations(draw):
    """Random coefficients on both sides and how somebody might write them."""
    sides, slopes, levels = [], [], []
    for _ in range(2):
        slope, terms = np.zeros(len(NAMES)), []
        for k in draw(st.lists(st.integers(0, len(NAMES) - 1), max_size=5)):
            factor = draw(COEFFICIENT)
            slope[k] += factor
            terms.append(_term(draw, NAMES[k], factor))
        level = draw(COEFFICIENT)
        terms.insert(draw(st.integers(0, len(terms))), repr(level))
        text = " + ".join(terms)
        if draw(st.booleans()):
            text, slope, level = f"2 * ({text})", 2 * slope, 2 * level
        sides.append(text)
        slopes.append(slope)
        levels.append(level)
    return " = ".join(sides), slopes[0] - slopes[1], levels[1] - levels[0]


@given(equations())
@settings(max_examples=200, deadline=None)
def test_random_equations_survive_writing_and_reading(case):
    text, slope, level = case
    if not slope.any():
        with pytest.raises(ModelError, match="names no parameter"):
            parse_restrictions(text, NAMES)
        return
    found = parse_restrictions(text, NAMES)
    # Every number is a multiple of 1/256 below 2^14: sums and products of them are exact.
    np.testing.assert_array_equal(found.matrix, [slope])
    np.testing.assert_array_equal(found.value, [level])


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("RC * cost = 1", "product of two parameters"),
        ("(RC + 1) * (cost - 2) = 1", "product of two parameters"),
        ("RC * RC = 4", "product of two parameters"),
        ("RC ** 2 = 4", "sums and multiples"),
        ("1 / RC = 1", "sums and multiples"),
        ("RC / cost = 1", "sums and multiples"),
        ("RC / 0 = 1", "sums and multiples"),
        ("RC % 2 = 1", "sums and multiples"),
        ("RC = = 1", "one equals sign"),
        ("RC == 1", "one equals sign"),
        ("RC = cost = 1", "one equals sign"),
        ("", "one equals sign"),
        ("RC", "one equals sign"),
        ("RC - 1", "one equals sign"),
        ("= 1", "not linear"),
        ("RC = ", "not linear"),
        ("RC <= 1", "only equations are possible"),
        ("RC < cost", "only equations are possible"),
        ("RC != 1", "Bounds belong to a parameter"),
        ("RC = 1 +", "not linear"),
        ("2 RC = 1", "not linear"),
        ("exp(RC) = 1", "not linear"),
        ("RC(2) = 1", "not linear"),
        ("RC[0] = 1", r"names 'RC\[0\]', but there is no such entry"),
        ("RC.real = 1", "not linear"),
        ("RC = 'one'", "not linear"),
        ("RC = 1j", "not linear"),
        ("RC if cost else 1 = 2", "not linear"),
        ("RC = nan", "names 'nan', but there is no such entry"),
        ("RC = RC", "names no parameter"),
        ("1 = 1", "names no parameter"),
        ("0 * RC = 1", "names no parameter"),
        ("RC - RC = 1", "names no parameter"),
    ],
)
def test_what_is_not_a_linear_equation_is_refused(text, why):
    with pytest.raises(ModelError, match=why) as caught:
        parse_restrictions(["cost = 1", text], NAMES)
    assert repr(text) in str(caught.value)  # which of several it was


def test_an_unknown_name_is_told_with_the_known_ones():
    with pytest.raises(ModelError, match="names 'gamma', but there is no such entry") as caught:
        parse_restrictions("gamma = 1", ["RC", "cost[good]"])
    assert "RC, cost[good]" in str(caught.value)
    near = r"names 'cost\[godo\]', .* Did you mean 'cost\[good\]'\?"
    with pytest.raises(ModelError, match=near):
        parse_restrictions("cost[godo] = 1", ["RC", "cost[good]"])


@pytest.mark.parametrize("unknown", ["RC3", "oRC", "discost", "cost_", "_RC"])
def test_a_name_inside_an_unknown_one_is_not_taken_for_it(unknown):
    """And the message names what was not understood, not a piece of it."""
    with pytest.raises(ModelError, match=f"names '{unknown}', but there is no such entry"):
        parse_restrictions(f"{unknown} = 1", NAMES)


@pytest.mark.parametrize("name", ["e", "E", "e1"])
def test_a_parameter_named_like_an_exponent_leaves_numbers_alone(name):
    found = parse_restrictions(f"{name} = 2{name.rstrip('1')}1 - 1e-05", [name])
    np.testing.assert_array_equal(found.matrix, [[1]])
    np.testing.assert_allclose(found.value, [20 - 1e-5], rtol=1e-15)


@pytest.mark.parametrize("number", ["1e400", "9" * 400, "-1e999", "1e308 * 10", "True"])
def test_a_number_that_is_none_is_refused(number):
    with pytest.raises(ModelError):
        parse_restrictions(f"RC = {number}", NAMES)


@pytest.mark.parametrize("text", ["_entry_0 = 1", "_entry_99 = 1", "RC = _entry_1"])
def test_inner_names_are_not_a_language(text):
    with pytest.raises(ModelError):
        parse_restrictions(text, NAMES)


def test_a_label_may_hold_an_equals_sign():
    found = parse_restrictions("rate[age=1] = 2 * rate[age=2]", ["rate[age=1]", "rate[age=2]"])
    np.testing.assert_array_equal(found.matrix, [[1, -2]])


def test_without_any_parameters_nothing_is_known():
    with pytest.raises(ModelError):
        parse_restrictions("RC = 1", [])
