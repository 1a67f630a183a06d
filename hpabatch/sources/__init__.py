"""What fills a history and where HPA documents come from."""
