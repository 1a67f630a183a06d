"""Generator of the demo data: `python -m data.generator.demo`."""
