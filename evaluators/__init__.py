"""Experiments, physics, features, the simulator, fitting and scoring."""
