"""Closed loop: scenarios, the rules on a plant, measures, export as a history."""
