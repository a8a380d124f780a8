"""The documentation site: `make docs` builds it into docs/_build/html."""

import inspect
import os
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent / "_ext"))

import plain_docstrings

import pomdpfit as pf
from pomdpfit import plots

# Most of a first fit is compilation: what one build has compiled the next one reads.
os.environ.setdefault("JAX_COMPILATION_CACHE_DIR", str(Path(__file__).parent / "_build/programs"))
os.environ.setdefault("JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS", "0")
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")  # that compiling took long is no part of a page

project = "pomdpfit"
author = "The pomdpfit developers"
copyright = author
version = release = pf.__version__

extensions = [
    "myst_nb",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.mathjax",
]
exclude_patterns = ["_build", "pictures"]
nitpicky = True
smartquotes = False  # z' is a name, not a quotation

# Pages are Markdown; those with code cells are notebooks, run anew in every build.
myst_enable_extensions = ["dollarmath", "colon_fence", "deflist", "attrs_inline"]
myst_heading_anchors = 3
nb_execution_mode = "force"
nb_execution_raise_on_error = True
nb_execution_show_tb = True
nb_execution_in_temp = True
nb_execution_timeout = 900
nb_merge_streams = True

html_theme = "furo"
html_title = f"pomdpfit {version}"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_copy_source = False

autodoc_typehints = "signature"
autodoc_typehints_format = "short"
autodoc_member_order = "bysource"
autodoc_preserve_defaults = True
python_use_unqualified_type_names = True
python_maximum_signature_line_length = 80
autosummary_generate = False
toc_object_entries_show_parents = "hide"

_MODULES = {"pomdpfit": pf, "pomdpfit.plots": plots} | {
    f"pomdpfit.{name}": getattr(pf, name) for name in ("models", "baselines", "datasets")
}
# Objects live in private modules; annotations name them there, readers know them by these names.
PUBLIC = {
    f"{obj.__module__}.{obj.__qualname__}": f"{module}.{name}"
    for module, home in _MODULES.items()
    for name in home.__all__
    if inspect.isclass(obj := getattr(home, name)) or inspect.isfunction(obj)
}
# Made by functions, not by users: how they are constructed is nobody's business.
RETURNED = {
    "Beliefs", "Bootstrap", "Certificate", "Counterfactual", "DemandCurve", "Estimate", "FitTest",
    "Forgetting", "Identification", "InformationValue", "InversionEstimate", "LogLikelihood",
    "MarkovOrder", "Panel", "PanelCheck", "PriorSet", "Profile", "RecoveredDynamics",
    "RewardInversion", "Sensitivity", "SerialDependence", "Simulation", "Solution",
    "Specification", "Spectrum", "StateChoice", "StatesCost", "TestResult", "TwoPeriods",
}  # fmt: skip


def _signature(app, what, name, obj, options, signature, returns):
    if what == "class" and name.removeprefix("pomdpfit.") in RETURNED:
        return "", None
    return None


def _resolve(app, env, node, contnode):
    """A link to a private name leads to its public one; other types in signatures are no links."""
    target = node.get("reftarget", "")
    if node.get("refdomain") != "py":
        return None
    known = PUBLIC.get(target)
    if known is not None:
        return env.get_domain("py").resolve_xref(
            env, node["refdoc"], app.builder, "obj", known, node, contnode
        )
    if (node.get("reftype") == "class" and not target.startswith("pomdpfit.")) or "._" in target:
        return contnode
    return None


def setup(app):
    """Plain docstrings, links by public names."""
    app.connect("autodoc-process-docstring", plain_docstrings.hook(frozenset(pf.__all__)))
    app.connect("autodoc-process-signature", _signature)
    app.connect("missing-reference", _resolve)
