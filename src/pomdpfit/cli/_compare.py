"""`pomdpfit compare`: saved fits side by side, and tests between them."""

import itertools
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from pomdpfit._errors import EstimationError
from pomdpfit.cli._common import Usage, prepare, print_json
from pomdpfit.cli._options import Debug, Json

if TYPE_CHECKING:
    from pomdpfit._estimate import Estimate

_ALIKE = (
    "Both have the same parameters, but the model's code, its options or the prior differ: fit "
    "both with the same model for a likelihood ratio."
)


def compare(
    fits: Annotated[list[Path], typer.Argument(metavar="FIT FIT...", help="Fits that were saved.")],
    json: Json = False,
    debug: Debug = False,
) -> None:
    """Compare saved fits to the same data: a table, best AIC first, and a test of each pair.

    Of two fits of which one is the other with more held, shared or known, a likelihood-ratio test;
    of different models that are not nested Vuong's test.
    """
    if len(fits) < 2:
        raise Usage("a comparison needs at least two fits.")
    from pomdpfit.inference._compare import compare as side_by_side
    from pomdpfit.storage import load

    prepare()
    names = names_of(fits)
    loaded = {name: load(path) for name, path in zip(names, fits, strict=True)}
    table = side_by_side(**loaded).rename_axis("fit")
    tests = [
        _test(first, second, loaded) for first, second in itertools.combinations(table.index, 2)
    ]
    if json:
        print_json({"table": table, "tests": tests})
        return
    typer.echo(table.to_string(float_format=lambda x: f"{x:.4f}"))
    for test in tests:
        typer.echo(f"\n{test['between'][0]} and {test['between'][1]}: {test['text']}")


def names_of(fits: list[Path]) -> list[str]:
    """Names of the files, or their paths where two have the same."""
    stems = [path.stem for path in fits]
    names = stems if len(set(stems)) == len(stems) else [str(path) for path in fits]
    twice = [name for k, name in enumerate(names) if name in names[:k]]
    if twice:
        raise Usage(f"{twice[0]} is named twice: name each fit once.")
    return names


def _test(first: str, second: str, loaded: "dict[str, Estimate]") -> dict[str, Any]:
    """The test that applies to two fits, or why none does."""
    from pomdpfit.inference._nested import nested, same_model, same_parameters
    from pomdpfit.inference._tests import likelihood_ratio_test, vuong_test

    small, large = sorted((first, second), key=lambda name: loaded[name].df_model)
    try:
        if nested(loaded[small], loaded[large]):
            between, result = (small, large), likelihood_ratio_test(loaded[small], loaded[large])
            text = str(result)
        elif same_model(loaded[first], loaded[second]):
            between, result = (first, second), None
            text = "no test: two fits of one model, of which neither restricts the other."
        else:
            between, result = (first, second), vuong_test(loaded[first], loaded[second])
            text = str(result)
            if same_parameters(loaded[first], loaded[second]):
                text += f" {_ALIKE}"
    except EstimationError as error:
        between, result, text = (first, second), None, f"no test: {error}"
    return {"between": between, "text": text, "result": result}
