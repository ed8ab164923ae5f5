"""The launcher imports it and uses it only when asked to tune."""

Autotuner = None
