"""Run folders: the files of a run, written and read back."""
