"""The parts models are composed of."""
