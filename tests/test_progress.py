"""What is told of long work: done, failed, left."""

import pomdpfit as pf
from pomdpfit._progress import telling_failures


def test_a_callable_of_three_hears_three_and_one_with_a_keyword_the_failures_too():
    heard = []
    telling_failures(lambda what, done, total: heard.append((what, done, total)))("a", 1, 3, 2)
    telling_failures(lambda *words: heard.append(words))("b", 1, 3, 2)
    telling_failures(lambda *words, **more: heard.append((*words, more)))("c", 1, 3, 2)
    telling_failures(lambda what, done, total, failed=0: heard.append((what, failed)))("d", 1, 3, 2)
    assert heard == [("a", 1, 3), ("b", 1, 3), ("c", 1, 3, {"failed": 2}), ("d", 2)]


def test_the_bar_shows_what_is_left_and_what_has_failed(capsys):
    with pf.progress_bar() as bar:
        bar("resumed: 3 of 10 replicates are in [kept]", 1, 1)
        bar("stage 1", 1, 4)
        telling_failures(bar)("replicates", 3, 10, 0)
        telling_failures(bar)("replicates", 5, 10, 2)
    told = " ".join(capsys.readouterr().err.split())
    assert "5 left, 2 failed" in told
    assert "3 left 0:00" in told
    assert "resumed: 3 of 10 replicates are in [kept]" in told
    assert "1/1" not in told
