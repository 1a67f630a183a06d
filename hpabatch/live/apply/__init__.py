"""Writes to a cluster: sizes and statuses, safety rules, leader election, log."""
