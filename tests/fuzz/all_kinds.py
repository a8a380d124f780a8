"""Every kind of file, and its share of a run."""

from tests.fuzz.fits import FITS
from tests.fuzz.models import MODELS
from tests.fuzz.panels import PANELS
from tests.fuzz.pomdp_files import POMDP_FILES
from tests.fuzz.tables import TABLES

KINDS = {kind.name: kind for kind in (PANELS, TABLES, MODELS, POMDP_FILES, FITS)}
SHARES = {"panels": 0.40, "tables": 0.10, "models": 0.15, "pomdp_files": 0.25, "fits": 0.10}
