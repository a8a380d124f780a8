"""Spoiled files by the thousand: each must be read rightly or refused in the package's own words.

`python -m tests.fuzz --files 100000 --seed 0` makes mutants of small sound files (panels as text,
Parquet and Stata; models; .POMDP files; saved fits) and reads each in a worker process under a
limit on time, a limit on memory and an audit hook that notices code being run. See `kinds.Kind`
for what is held against an answer.
"""
