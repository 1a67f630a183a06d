"""Importers: outside data into a history."""
