"""Compiled loops over fleets; each calls the scalar rules and repeats none of them."""
