"""Interchangeable methods for the soft Bellman equation."""

from pomdpfit.solvers._backward_induction import backward_induction
from pomdpfit.solvers._base import AbstractSolver, Count, SolverState
from pomdpfit.solvers._linear import many_solver, solve_back
from pomdpfit.solvers._newton import Newton
from pomdpfit.solvers._plan import Plan, make_plan
from pomdpfit.solvers._relative_value_iteration import RelativeValueIteration
from pomdpfit.solvers._stencil_system import apply, linear_solver

__all__ = [
    "AbstractSolver",
    "Count",
    "Newton",
    "Plan",
    "RelativeValueIteration",
    "SolverState",
    "apply",
    "backward_induction",
    "linear_solver",
    "make_plan",
    "many_solver",
    "solve_back",
]
