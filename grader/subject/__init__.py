"""The student's code, made callable: the only stage in which it runs.

What stands between it and the judge, in the order in which to read it:

    wire, peer          messages; what a worker says is read as hostile
    faults              what it can say instead of a value
    remote              the judge's end: deadlines, and answers that must fit their questions
    script              the questions of a check, asked at once
    lockdown            how a worker locks itself in, with landlock, seccomp and kernel
    jail, nursery       what is outside of that: the place, and the parent that forks workers
    sandbox             the judge's side of these: it starts the parent, and ends workers

A lie has to get through the first four, and nothing that a worker does gets past the others.
`worker` and `host` are at the student's end, and trusted in nothing; `proxy` is what checks call.
"""
