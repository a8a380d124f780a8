"""Seeded mistakes in the filter, the Bellman operator, the scores and the masks.

    python -m tests.mutations [--only N ...] [TEST FILE ...]

Each mistake is made in a copy of the source, and the tests of `make test` are run on it until the
first one fails. A mistake that no test notices is printed as such, and the exit code is 1. Without
test files those are run that are most likely to notice.
"""

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).parents[1]
LIKELY = (
    "test_belief", "test_likelihood", "test_bellman", "test_shocks", "test_solve",
    "test_panel_scoring", "test_panel", "test_simulate", "test_derivatives", "test_score_laws",
    "test_priors", "test_information", "test_fit",
)  # fmt: skip
# What goes wrong, in which file, and the lines before and after.
MUTATIONS = (
    ("plain filter: beliefs are not divided by sigma", "_plain_filter.py",
     "return mass / jnp.where(sigma > 0, sigma, 1.0), (x, sigma)", "return mass, (x, sigma)"),
    ("plain filter: s and s' of the kernel change places", "_plain_filter.py",
     "P = jnp.moveaxis(matrices[place], 0, -1)\n        mass",
     "P = jnp.swapaxes(jnp.moveaxis(matrices[place], 0, -1), 0, 1)\n        mass"),
    ("careful filter: exponents are dropped from log sigma", "_scaled_belief.py",
     "log_factor + step.exponent * _LOG_2, -jnp.inf", "log_factor, -jnp.inf"),
    ("filter: z' is looked up with the action before", "_moves.py",
     "match = at_z(kernel.successors, z, a) == z_next[..., None]",
     "match = at_z(kernel.successors, z, jnp.roll(a, 1, axis=0)) == z_next[..., None]"),
    ("filter: a transition without information leaves the belief", "_moves.py",
     "place = jnp.where(informs, seen, blind + pair)",
     "place = jnp.where(informs, seen, nothing)"),
    ("filter: an impossible z' is taken for the first successor", "_moves.py",
     "seen = jnp.where(match.any(axis=-1), pair * K + slot, nothing + 1)",
     "seen = pair * K + slot"),
    ("smoother: messages run forwards", "_belief.py",
     "find_moves(kernel, panel), reverse=True)", "find_moves(kernel, panel), reverse=False)"),
    ("simulation: the agent's belief is not divided by sigma", "_belief.py",
     "belief = mass / jnp.where(possible, sigma, 1.0)[..., None]", "belief = mass"),
    ("Bellman: rewards are discounted too", "_bellman.py",
     "return self.reward + self.primitives.discount * self.stencil(coefficients)",
     "return self.primitives.discount * (self.reward + self.stencil(coefficients))"),
    ("Bellman: the discount is left out of T", "_bellman.py",
     "q = [self.reward[:, a] + beta * part for a, part in enumerate(expected)]",
     "q = [self.reward[:, a] + part for a, part in enumerate(expected)]"),
    ("Bellman: T' forgets the turn of the choice on slopes", "_bellman.py",
     "return jnp.stack([total[..., 0], total[..., 1] + turned], axis=-1)",
     "return jnp.stack([total[..., 0], total[..., 1]], axis=-1)"),
    ("Bellman: actions that are not available are chosen", "_bellman.py",
     "return None if available is None else available[:, None, :]", "return None"),
    ("shocks: emax without the scale in front", "_shocks.py",
     "return self.scale * soft_maximum(_utility(q, self.scale, available))[0]",
     "return soft_maximum(_utility(q, self.scale, available))[0]"),
    ("scores: reverse mode without the derivative of the division", "_plain_filter.py",
     "m = (y + (l - term_by_term(y * following))) * inverse", "m = (y + l) * inverse"),
    ("scores: the part of the prior is left out", "_agent_scores.py",
     "scores = through + start + jnp.stack", "scores = through + jnp.stack"),
    ("scores: choices do not depend on the belief", "_agent_scores.py",
     "return total, (chosen, by_state(in_x, by_q))",
     "return total, (chosen, by_state(in_x, 0.0 * by_q))"),
    ("scores: weights of agents are ignored in the gradient", "_plain_score.py",
     "counted = data.panel, jnp.where(weights > 0, weights, 0.0)",
     "counted = data.panel, jnp.ones_like(weights)"),
    ("masks: choices are scored where they should not be", "_score_panel.py",
     "jnp.where(panel.score_choice, chosen, 0.0), belief)", "chosen, belief)"),
    ("masks: transitions are scored where they should not be", "_score_panel.py",
     "observation = jnp.where(panel.score_observation, log_sigma, 0.0)",
     "observation = log_sigma"),
    ("masks: the last row of an agent continues into the padding", "_panel.py",
     "following[:, :-1] = present[:, 1:]", "following[:, :-1] = present[:, :-1]"),
)  # fmt: skip


def caught(number: int, files: list[str]) -> str | None:
    """The test that notices this mistake first, or None."""
    _, name, before, after = MUTATIONS[number]
    with tempfile.TemporaryDirectory() as folder:
        source = shutil.copytree(ROOT / "src", Path(folder) / "src")
        path = source / "pomdpfit" / name
        text = path.read_text()
        assert text.count(before) == 1, f"{name} does not hold {before!r} once"
        path.write_text(text.replace(before, after))
        command = [sys.executable, "-m", "pytest", "-x", "-q", "-p", "no:cacheprovider", *files]
        environment = os.environ | {"PYTHONPATH": str(source)}
        done = subprocess.run(
            command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False
        )
    failed = re.search(r"^(?:FAILED|ERROR) (\S.*?)(?: - .*)?$", done.stdout, flags=re.MULTILINE)
    return failed[1] if failed else None


def main() -> int:
    """Make every mistake, and print which test notices it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", nargs="*", type=int, default=range(len(MUTATIONS)))
    parser.add_argument("files", nargs="*", default=[f"tests/{name}.py" for name in LIKELY])
    words = parser.parse_args()
    missed = 0
    for number in words.only:
        test = caught(number, words.files)
        missed += test is None
        print(f"{number + 1:2d}. {MUTATIONS[number][0]}: {test or 'NOT NOTICED'}", flush=True)
    return int(missed > 0)


if __name__ == "__main__":
    sys.exit(main())
