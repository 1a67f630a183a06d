"""The page to send: one HTML file with verdict, findings, fleet and timelines, for any browser."""
