"""The figures: a declaration and a caption each."""
