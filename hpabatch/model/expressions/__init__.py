"""Row expressions: tokens, tree and parser of conditions and map expressions."""
