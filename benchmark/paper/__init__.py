"""The paper as data: `printed`, its tables cell by cell, and `claims`, its sentences with the test that decides each.

Where a number or a sentence stands in the paper is beside it in the files.
"""
