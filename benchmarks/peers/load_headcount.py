"""The model, and a check that what is read and written in it leaves its output as it was."""

import headcount

loaded = headcount.load("model")
print(loaded.heads)
