"""Ready models."""

from pomdpfit.models.engine_replacement import EngineReplacement
from pomdpfit.models.equipment import EquipmentInspection
from pomdpfit.models.grouped import Grouped
from pomdpfit.models.pomdp_file import PomdpFile
from pomdpfit.models.tabular import Tabular
from pomdpfit.models.tiger import Tiger

__all__ = ["EngineReplacement", "EquipmentInspection", "Grouped", "PomdpFile", "Tabular", "Tiger"]
