"""Analysis of an HPA from its manifest alone: dead bands, cycles, ramps."""
