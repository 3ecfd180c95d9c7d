"""How good a method is at one moment: `evaluate` scores a point of the curve, `validators` without a label of the target.

`statistics` lends batch norm the target's statistics, `share` says how much of a method's running averages they are.
"""
