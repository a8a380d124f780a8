"""Design of studies: how many agents, over how many periods, for a standard error of ...?"""

from pomdpfit.studies._design import design
from pomdpfit.studies._study_design import StudyDesign

__all__ = ["StudyDesign", "design"]
