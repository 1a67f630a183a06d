"""Explanation of one HPA at one sync, and its status in the controller's words."""
