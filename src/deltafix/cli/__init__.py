"""The command line: one module per command, and `main`, which loads only the one asked for.

Reading order: `main` (dispatch, exit codes), `console` (what goes to which stream), then a command:
`check`, `run`, `shell` with `literals` (facts and queries as text). Invariant: a command's result
goes to standard output, everything else to standard error; exit code 0 is success, 1 a negative
answer, 2 an error of the user's making, 70 a bug of ours, 130 an interrupt.
"""
