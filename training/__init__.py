"""How a model learns the tasks, and the command line over everything."""
