"""The live loop: every HPA of a real cluster decided in one pass, compared and recorded."""
