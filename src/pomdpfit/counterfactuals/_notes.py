"""What a reader of a counterfactual must know beside its numbers."""

from collections.abc import Sequence

from pomdpfit.counterfactuals._bands import Bands
from pomdpfit.counterfactuals._law import Shares


def notes_of(
    bands: Bands, laws: Sequence[Shares] = (), *, discount_moved: bool = False
) -> tuple[str, ...]:
    """Doubts of the estimate, laws on grids that are too coarse, draws that failed or fell outside,
    and levels that do not compare.
    """
    found = list(bands.notes)
    coarse = [law for law in laws if not law.fine]
    if coarse:
        error = max(law.error for law in coarse)
        found.append(
            "the law of (z, x) is not known to four digits: on the finest grid that is tried, "
            f"twice as many cells change a share by {error:.1e}. Compare with pf.simulate."
        )
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
