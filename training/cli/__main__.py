"""`python -m training.cli`: the `clinical-envs` command without its script."""

from training.cli import main

if __name__ == "__main__":
    main()
