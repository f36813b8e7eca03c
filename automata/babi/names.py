"""What the twenty tasks of bAbI ask for."""

TASK_NAMES = {
    1: "single supporting fact",
    2: "two supporting facts",
    3: "three supporting facts",
    4: "two argument relations",
    5: "three argument relations",
    6: "yes/no questions",
    7: "counting",
    8: "lists and sets",
    9: "simple negation",
    10: "indefinite knowledge",
    11: "basic coreference",
    12: "conjunction",
    13: "compound coreference",
    14: "time reasoning",
    15: "basic deduction",
    16: "basic induction",
    17: "positional reasoning",
    18: "size reasoning",
    19: "path finding",
    20: "agent's motivations",
}
"""By number. Source: Weston et al. 2015, arXiv 1502.05698, section 3."""
