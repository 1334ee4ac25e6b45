"""Every check of headcount, each as a test of its own."""

from headcount_example.dimmed import Dimmed
from headcount_example.halved import Halved
from headcount_example.negation import Negation
from headcount_example.triplets import Triplets

from headcount.testing import parametrize


@parametrize(Negation, Dimmed, Halved, Triplets)
def test_the_plug_in(check):
    check()
