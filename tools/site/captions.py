"""The site's words about each measured table: its title, what a row is, and who reads it."""

# The file's name: title, what a row is, and the lesson that reads the table, if one does.
CAPTIONS = {
    "parts": (
        "What each part of a GPT is worth",
        "Each row is one training of a small GPT: for how many `steps`, which `variant` of "
        "it, at which learning `rate`, with which `seed`. Runs whose `part` is `choose` only "
        "choose the rate, on text that nothing else sees; those with `report` are the "
        "results. `loss` is in nats per letter on that text, and `last_loss` its mean over "
        "the last places of a window.",
        "what_matters",
    ),
    "longer": (
        "What becomes of the damage when training goes on",
        "Each row is one training of 6,000 steps, as in the table of the parts.",
        "what_matters",
    ),
    "experts": (
        "A mixture of experts, one MLP, and one of their size",
        "Each row is one training of a small GPT, as in the table of the parts.",
        "todays_models",
    ),
    "modern": (
        "What each of today's changes is worth",
        "Each row is one training of a small GPT with one change, as in the table of the parts.",
        "todays_models",
    ),
    "rates": (
        "How high a learning rate a small GPT bears, with QK-norm and without",
        "Each row is one training of a small GPT, as in the table of the parts.",
        "todays_models",
    ),
    "dropout": (
        "What dropout is worth where the same pages are read again and again",
        "Each row is one training of a small GPT on 20,000 letters, as in the table of the parts.",
        "05",
    ),
    "far": (
        "Rotary positions beyond what was trained",
        "Each row belongs to a GPT that was trained on windows of 32 letters with one `seed`: its `loss` at "
        "a `place` and the 15 after it, where it `reads` 128 letters in one of three ways.",
        "todays_models",
    ),
    "passage": (
        "What a network adds to counts",
        "Rows of a kind give the mean `gain` over so many `letters`: by how many nats they became likelier than "
        "by counts of six letters. Rows of the passage are single letters, in order.",
        "speedrun",
    ),
    "rungs": (
        "The ladder that opens notebook 08",
        "Each row is one small model of letters, trained for 600 updates: its `loss` in nats "
        "per letter over the whole validation text, the `seconds` of one core that it took, "
        "and what it `writes`.",
        "08",
    ),
    "two_questions": (
        "Two questions to one softmax",
        "Each row is one training of a network that is asked what somebody gives and gets: with how many `heads`, what "
        "stands `behind` them, and the shares of new scenes in which both answers are `right`, or the same thing is "
        "said `twice`. `python -m tools.studies two_questions` makes it anew.",
        "06",
    ),
    "heads_worth": (
        "What heads are worth",
        "Each row is one training on Shakespeare: one head or four in the same width, one layer or two, with an MLP "
        "behind each or without. `python -m tools.studies heads_worth` makes it anew.",
        "06",
    ),
    "norms": (
        "How high a learning rate a GPT bears without norms",
        "Each row is one training of lesson 07's GPT on Shakespeare, with `norms` or without, at one `rate` and with "
        "one `seed`: its `loss` on text that it never saw, in nats a letter, and the `highest` loss of a step. Some "
        "are `held_by` something else. `python -m tools.studies norms` makes it anew.",
        "07",
    ),
    "replacing": (
        "Layers that replace what they read, with a better start",
        "Each row is several towers of lesson 07, trained side by side at one `rate`: how much the lines of a page "
        "`differ` above their layers before any training, the `size` of what comes out and of the `gradient` below, "
        "as shares of what went in, and the percentages of pages that they have right after 100, 300 and 1,000 "
        "steps. `python -m tools.studies replacing` makes it anew.",
        "07",
    ),
    "copying": (
        "What length costs a recurrent network",
        "Each row is one training of lesson 00's networks, which write random words backwards: with attention "
        "or through one vector, with states of so many numbers (`width`). `right_20` is the share of letters "
        "that are right in words of twenty; they practise on words of up to twenty. "
        "`python -m tools.studies copying` makes it anew.",
        "00",
    ),
    "translating": (
        "Where a translator looks",
        "Each row is one training of lesson 00's translator, which writes from words, from states, or from `both`, "
        "states and its own: the share of words that are `right` in other questions, what it `writes` for the "
        "lesson's sentence, and its `lines`: the place of the German word at which each English word looks most. "
        "`python -m tools.studies translating` makes it anew.",
        "00",
    ),
    "mirror": (
        "One matrix for both roles",
        "Each row is one network of lesson 03, asked what the hero gives: the share that is `right`, and for how many "
        "of the eight people their own card (`own`), the hero's, or the fan's has the highest score. "
        "`python -m tools.studies mirror` makes it anew.",
        "03",
    ),
    "root": (
        "Scores with the root of the width, and without it",
        "Each row is one network of lesson 03, with queries and keys of some `width` and matrices that `start` so many "
        "times as large as usual; `spread` is the scores' standard deviation before the first step. "
        "`python -m tools.studies root` makes it anew.",
        "03",
    ),
    "masks": (
        "What a mask buys",
        "Each row is one training of lesson 04's model: in which layers it is `masked`, whether it knows `places`, "
        "where it is `asked`, and its loss with the future `visible`, with it `covered`, and at the `last` place. "
        "`python -m tools.studies masks` makes it anew.",
        "04",
    ),
    "thin_book": (
        "What is learned by heart",
        "Each row is one student of lesson 05: what was `hidden` from it while it learned, or how else it was kept "
        "from learning by heart, and its right answers to its own scenes, to new ones, and without the card that has "
        "the answer. `python -m tools.studies thin_book` makes it anew.",
        "05",
    ),
    "heads": (
        "What heads look at, and what they cost",
        "Each row is a head of one of three networks (`seed`): the shares of its attention one, two and three letters "
        "back, and by how much the loss rises when it says the same at every place (`cost`, and "
        "that on either half of the text), when it says nothing (`zeros`), and when its map is made by hand, all on "
        "the letter one, two or three back that it looked at most (`by_hand`). "
        "`python -m tools.studies heads` makes it anew.",
        "08",
    ),
    "three-minutes": (
        "How the best recipe of three minutes learns",
        "Each row is a record of one training with the preset `three-minutes`: the `letters` that it had read, its "
        "losses, and the `seconds` of all updates. `python -m tools.studies presets three-minutes` makes it anew.",
        "08",
    ),
    "heads_growth": (
        "How heads grew",
        "Each row is one of these networks after some steps of its training: the loss on the batches since the row "
        "before, on the validation text, and there `without` the head that ends up looking most at the letter before; "
        "then the share that each head gives to the letter before. `python -m tools.studies heads` makes it anew.",
        "08",
    ),
    "heads_maps": (
        "A line in sixteen maps",
        "Each row is one letter of a line as one head of the first of these networks reads it: the shares of all "
        "letters. `python -m tools.studies heads` makes it anew.",
        "08",
    ),
    "sampling": (
        "What each rule of sampling writes",
        "Each row is what one `network` of notebook 08 makes of 96 beginnings, by a `rule` at some `value` and with "
        "one set of `dice`: how many `words` of three letters or more, how many of them are `found` in the training "
        "text, how many `different` ones are, the mean surprise of a letter (`nats`) and the share of letters above "
        "4 nats (`spikes`). `python -m tools.studies sampling` makes it anew.",
        "09",
    ),
    "claims": (
        "What the sources claim and nobody had measured",
        "Each row is one training: a `variant` of a small GPT at its `task`, with one learning `rate` "
        "and one `seed`. `own` is the loss in nats per letter on what it learned from, `held_out` on "
        "text that chooses its rate, `new` on the validation text.",
        "raschka",
    ),
    "times": (
        "How long what the sources compare takes",
        "Each row is `ours` beside `theirs`, which take turns: `ratio` is the median of ours divided by "
        "theirs, so that below 1 ours takes less; `low` and `high` are the smallest and the largest ratio "
        "of a round, and seconds are those of one core. `python -m tools.studies times` takes them anew.",
        "raschka",
    ),
    "law": (
        "How large a GPT should be for so much computing",
        "Each row is one training of a GPT of two layers and some `width`, with a budget of `operations` (six for each "
        "of its `weights` and letters, and twelve times layers, width and window for the looks), which is spent in "
        "`steps`; with one learning `rate` and one `seed`. Rows of the `part` choose decide on the rate; "
        "of those of report, `loss` is that on the validation text.",
        "scaling_out",
    ),
    "tokens": (
        "What larger vocabularies are worth in equal time",
        "Each row is one training of a small GPT that reads tokens of a `vocabulary`, in windows of so many tokens, "
        "for half a minute, or `times` as long, with one learning `rate` and one `seed`: its loss on the validation "
        "text `per_letter` and `per_token`, and the processor's seconds.",
        "tokens",
    ),
    "reward": (
        "Learning from a judge",
        "Each row is one network that learns for eight rounds from the best of its own tries. `held_by` and "
        "`strength`: the text or the old network that hold it back, and how much; no choice: any try is read; pairs: "
        "its judge looks up pairs of words; reading: how many times the best are read. After each round: the share of "
        "words and of `pairs` found in the book, how many `different` words, what is found in the best of eight "
        "(`chosen`), and the `loss` on Shakespeare.",
        "reward",
    ),
    "museum": (
        "What real faults do to a curve",
        "Each row trains a small program in which one part has a fault (`variant`; `Program` "
        "has none, and `NearSighted` sees six letters), for some `steps` and with one `seed`: "
        "the `first` loss of all, the `loss` that its own curve shows on text it hasn't "
        "learned, and the `honest` loss, of the letter after a text that ends there.",
        "museum_of_bugs",
    ),
    "scoreboard": (
        "The scoreboard of the thread",
        "Each row is one network, trained on telegrams with one seed: the share of questions "
        "that it answers right `without` the part and `with` it. Notebooks 01 to 07 print "
        "these rows, and each draws those of all before it.",
        "",
    ),
}
