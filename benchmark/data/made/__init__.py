"""Images that this package makes, offline: `embedded` digits and `pictures` of things, the readers of the tier mini.

`typeset` also stands in for the SYN domain of the real digits; the rest is what they draw with.
"""
