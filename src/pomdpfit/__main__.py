"""`python -m pomdpfit` is the command line."""

from pomdpfit.cli import app

if __name__ == "__main__":
    app(prog_name="pomdpfit")
