"""Advice: objective, choice among candidates, reasons and certificates."""
