"""The composition root, and the only place that knows Hydra: from a command line to records."""
