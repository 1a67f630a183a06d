"""Naive reference of the HPA controller: slow, plain, and independent of the package under test."""
