"""A folder of somebody's pictures: what is in it, what is odd about it, and the suite file that fits it.

`survey.survey` looks, `odd.oddities` says in sentences what a person should know, `propose.propose` chooses classes, network
and budgets and writes them as TOML.
"""
