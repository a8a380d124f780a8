"""What would happen, and what would be known, if something were different."""

from pomdpfit.counterfactuals._counterfactual import Counterfactual, counterfactual
from pomdpfit.counterfactuals._demand_curve import DemandCurve, demand_curve
from pomdpfit.counterfactuals._information import FullObservation, Inspection, Sensor
from pomdpfit.counterfactuals._observing import FullyObserved, WithSignal
from pomdpfit.counterfactuals._value_of_information import (
    InformationValue,
    value_of_information,
)
from pomdpfit.counterfactuals._wrapped import Restricted

__all__ = [
    "Counterfactual",
    "DemandCurve",
    "FullObservation",
    "FullyObserved",
    "InformationValue",
    "Inspection",
    "Restricted",
    "Sensor",
    "WithSignal",
    "counterfactual",
    "demand_curve",
    "value_of_information",
]
