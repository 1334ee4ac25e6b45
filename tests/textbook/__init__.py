"""Every measure a second time, slowly, in the words of the papers.

Each file has `of_sentence(A, ...)`, the plain totals of one layer over one sentence, and
`over_corpus(sentences)`, the values over many: totals added up, then divided once. A sentence is
a dict of the keyword arguments of `of_sentence`. `A` is an array [head, query, key] without
padding; facts about the tokens are lists, one entry per token. Nothing here is fast, and
nothing here is imported from the package.
"""
