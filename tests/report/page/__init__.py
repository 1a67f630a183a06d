"""Tests of the page to send."""
