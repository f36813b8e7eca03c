"""What every question has in common: its description, the command made from it, where results go.

A question is one `Analysis` (`framework.analysis`): `RunAnalysis` for one run, `Comparison` for several runs
together. It gives its command, its files and, with a `ReportSection`, its place in the report. Nothing here
imports a question; `analysis.questions` lists them.
"""
