"""A relation: which heads look from a verb at the word that negates it?"""

import headcount

NEGATIONS = ("not", "n't", "never")


@headcount.register
class Negation(headcount.Relation):
    """A verb looks at the word that negates it."""

    name, query, key = "negation", "verb", "negation"
    source, needs_tree = "Universal Dependencies, Polarity=Neg", True

    def links(self, sentence):
        for word, head in enumerate(sentence.tree.heads):
            if sentence.words[word].lower() in NEGATIONS and head >= 0:
                yield head, word
