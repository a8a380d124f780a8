"""How many hidden states: pre-tests without a fit, and every criterion with one."""

from pomdpfit.identification.states._choose_states import choose_states, states_cost
from pomdpfit.identification.states._markov_order import MarkovOrder, markov_order_test
from pomdpfit.identification.states._serial_dependence import SerialDependence, serial_dependence
from pomdpfit.identification.states._state_choice import StateChoice, StatesCost

__all__ = [
    "MarkovOrder",
    "SerialDependence",
    "StateChoice",
    "StatesCost",
    "choose_states",
    "markov_order_test",
    "serial_dependence",
    "states_cost",
]
