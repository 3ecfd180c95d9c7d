"""What several verbs share: a session of runs from plan to table, progress with time left, methods in words."""
