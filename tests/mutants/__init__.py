"""Mutants: bugs planted on purpose, to show which bugs the tests find.

    python -m tests.mutants                       every mutant against the short suite, one JSON line each
    python -m tests.mutants --suite full --jobs 2 --out full.jsonl
    python -m tests.mutants --only frames-overdraw --near
    python -m tests.mutants --check               whether every mutant still applies, and where its lines are now
    python -m tests.mutants --compare full.jsonl short.jsonl

`catalogue` lists the mutants as data: a file, a snippet of it, and what stands there instead. For each of them, `trees`
makes a copy of the working tree with that one change, and `runs` runs the tests of a suite on the copy until the first one
fails: first the tests nearest to the change, then the rest. `plugin` runs inside pytest: it makes sure that the code under
test is the code of the copy, and reports which tests failed.

Laws: the working tree is never changed; a snippet that does not occur exactly once is an error; a test that fails without
a mutant finds none.
"""
