"""Which attention heads do the work, and how many can be pruned.

Models and data:
    load: a model by hub name or folder, or one that we ship, with tokenizer and heads (`Loaded`)
    Corpus, Sentence, Tree: the texts that heads are analysed on
    tasks: what quality means: translation, classification, language modelling, similarity
    Head, Heads, HeadTable: one head by name, the grid of all heads, a table with one row per head
    diagnose: what works for a model and what does not

What heads do:
    analyze: every measure of every head on a corpus, and the heads' roles (`Options`, `Analysis`)
    measure: measures without roles, for any plain transformers model
    induction_scores: induction heads of a causal model, on repeated random tokens
    skills: the heads of a language model that retrieve (`skills.skills`)
    explain: which heads made a model predict what it predicts (`ExplainOptions`)
    align: how well heads link words to their translations (`AlignmentOptions`)
    wordtimes: which heads of a Whisper say when words are spoken (`wordtimes.word_times`)
    cluster: distances between heads, groups of heads that look at the same places
        (`ClusterOptions`)
    select_antecedents: how often heads point from a mention at its antecedent
        (`CoreferenceOptions`)
    find_roles: roles from profiles (`Role`, `Thresholds`, `TraitStrength`)
    tapped, examine: read a model's attention; find out where its heads are
    write_report, write_figures: the page and the figures of an analysis
    ProgressBars: the progress of any of these in a notebook
    show: attention on one sentence or pair between words, in a notebook or as a page

What heads are worth:
    gated: multiply heads by gates inside a `with` block, e.g. 0 to leave them out
    importance: scores of every head on a task: gradient, relevance, ablation, norm, sink

What heads know together:
    probing: small models that read trees from attention and hidden states (`probing.probe`)

Smaller models:
    TaskSplits: a task's data to choose heads with, to measure on, and held out
    prune: choose heads under a budget, compensate, cut them out, and measure the change (`Pruned`,
        `PruneRecord`); what to prune and how: `BudgetSpec`, `Compensation`, `PruneSettings`
    save_pruned: the folder of a pruned model, with certificate and head card (`DenseAnalysis`)
    choose_heads: the plan alone, without any other change
    Plan: which heads are kept
    compact: a smaller model without the heads that a plan prunes
    save: write a compact model into a folder that transformers loads
    save_compact, export: the same with certificate and card; as ONNX (`certificate_corpus`)
    FurtherTraining: train any model further and measure the change (`FurtherTrained`,
        `FinetuneConfig`)
    score: a model's loss and score on a task
    plan_cache: which key/value groups of a language model can do without a whole cache, chosen by a
        score and judged by needles (`CacheOptions`, `cache.plan_of`)
    CachePlan: which groups of a language model keep all keys, and what the others keep
    streaming_cache: a cache that keeps no more (`cache.cache_bytes`); streaming_masks: the same
        by masks alone

More of what commands do:
    papers: a paper's tables and figures on your model and data, beside the published numbers
        (`papers.reproduce_michel2019`); what every layer of some models keeps of a token
        (`papers.evolve`); heads along a training (`papers.follow`); a model from scratch
        (`papers.train`)
    serve: a local page on which a model answers (`serve.open_model`, `serve.run_server`)
    compare: two runs side by side (`compare.write_comparison`)
    pages: the page of an analysis, the documents of results, what notebooks show
    pruning: the methods; all of them under the same budgets (`pruning.curve`)
    speed: a pruned model timed beside the dense one (`speed.compare_speed`)
    training: fine-tuning without the measurements around it (`training.finetune`)

What you add yourself:
    Trait: a class of keys whose heads `analyze` finds, with a role (`analyze(..., traits=...)`)
    Relation, Link: links between words of a sentence, whose heads `analyze` finds
        (`Corpus(..., links=...)`)
    register: a score or another thing of your own, under its name; `API` is the version of what
        such plug-ins are written for

Errors that a user can fix:
    InputError, of which CorpusError, ModelError and ConsentError are kinds
    accepting: go on inside a `with` block where a ConsentError would be raised, since something
        takes very long, or is lost

Importing headcount takes no time: what a name needs, torch included, is imported when it is used.

>>> import headcount
>>> loaded = headcount.load("sentence-transformers/all-MiniLM-L6-v2")  # doctest: +SKIP
>>> analysis = headcount.analyze(loaded, headcount.Corpus("treebank.conllu"))  # doctest: +SKIP
>>> analysis.roles["enc.2.8"]  # doctest: +SKIP
"""

import lazy_loader

__version__ = "0.4.0"
"""The version of the package, which `pyproject.toml` reads."""

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
