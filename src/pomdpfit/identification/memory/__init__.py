"""How fast the prior is forgotten: bounds, and what is so along a panel."""

from pomdpfit.identification.memory._forgetting import Forgetting, forgetting

__all__ = ["Forgetting", "forgetting"]
