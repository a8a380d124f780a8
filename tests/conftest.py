"""What every test module shares: quick compilation, and a cache of what was compiled before.

Three tiers: `make test` runs what is not marked, `make test-all` also what is marked `full` (pages,
browsers, clusters, kills, long fuzzing, small replications), `make studies` what is marked `study`
(Monte Carlo of hours).
"""

import gc
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

import pomdpfit as pf
from pomdpfit.programs import forget_programs
from pomdpfit.programs._store import keep_in

_QUICK = "--xla_backend_optimization_level=0 --xla_cpu_use_fusion_emitters=false"
_MOST_MAPS = 40_000  # memory maps of a process; Linux allows 65530, compiled code takes many


def pytest_configure(config: pytest.Config) -> None:
    """Compile with little effort, and once for all workers: most programs run only a few times.

    Such code takes 40 % less time to make and half as much again to run, so studies, which
    compute, do without. It is as exact: sums may be taken in another order, no more. pomdpfit's own
    programs do without the fusion emitters anywhere; here, so does what a test compiles itself. JAX
    reads these settings at its first compilation, which is after this; workers inherit them.
    """
    if config.getoption("markexpr") == "study":
        return
    gc.set_threshold(100_000, 20, 50)  # tracing makes objects by the million, which stay
    flags = os.environ.get("XLA_FLAGS", "")
    if "optimization_level" not in flags:
        os.environ["XLA_FLAGS"] = f"{flags} {_QUICK}".strip()


@pytest.fixture(autouse=True, scope="session")
def cache_of_compiled_programs(pytestconfig: pytest.Config) -> Iterator[None]:
    """JAX's own cache on disk, for all workers, and the next run (not for processes they start).

    JAX finds a program by its text and all settings, so what has changed is compiled anew.
    """
    import jax

    folder = pytestconfig.rootpath / ".pytest_cache" / "compiled"
    jax.config.update("jax_compilation_cache_dir", str(folder))
    jax.config.update("jax_persistent_cache_min_compile_time_secs", 0)
    yield
    jax.config.update("jax_compilation_cache_dir", None)


@pytest.fixture(scope="session")
def badly_labelled_estimate() -> pf.Estimate:
    """A fit with hidden states, for whoever draws or reports one."""
    from small_hidden import EVIL_ENGINE, hidden_fit, hidden_panel

    return hidden_fit(hidden_panel(), EVIL_ENGINE)


@pytest.fixture(autouse=True, scope="module")
def forget_compiled_code() -> Iterator[None]:
    """Drop compiled code before it takes more memory maps than a process may have.

    A command that has run in this process keeps programs by the text of this package, which says
    nothing of what a later test puts in the place of our functions: that is switched off again.
    """
    yield
    keep_in(None)
    maps = Path("/proc/self/maps")
    if not maps.exists() or maps.read_text().count("\n") > _MOST_MAPS:
        forget_programs()
        gc.collect()
