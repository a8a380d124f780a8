"""What a reader of a counterfactual must know beside its numbers."""

from collections.abc import Sequence

from pomdpfit.counterfactuals._bands import Bands
from pomdpfit.counterfactuals._law import Shares


def notes_of(
    bands: Bands,
    laws: Sequence[Shares] = (),
    *,
    per: float = 1.0,
    discount_moved: bool = False,
) -> tuple[str, ...]:
    """Doubts of the estimate, the error of the law of (z, x), draws that failed or fell outside,
    and levels that do not compare.

    per  what shares are multiplied by in the table
    """
    found = list(bands.notes)
    error = per * max((law.error for law in laws), default=0.0)
    what = "shares have" if per == 1 else "expected numbers have"
    told = f"{what} an error of about {error:.1e} from the grid of the law of (z, x)"
    if not all(law.fine for law in laws):
        found.append(
            f"{told}: four digits are not certain on the finest that is tried. Compare with "
            "pf.simulate."
        )
    elif error > 0:
        found.append(f"{told}.")
    if bands.failed:
        found.append(
            f"{len(bands.failed)} draws could not be solved and are left out; the first: "
            f"{bands.failed[0]}"
        )
    if bands.rejected:
        found.append(
            f"{bands.rejected} draws fell outside the bounds of a parameter and were drawn anew: "
            "the band is that of a truncated normal law."
        )
    if discount_moved:
        found.append(
            "the discount is different: values under two discounts are in different units, and "
            "their difference depends on the mean of the shocks (zero here). Compare behaviour."
        )
    return tuple(found)
