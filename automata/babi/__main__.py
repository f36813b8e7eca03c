"""Command: count the stories, questions and tokens of bAbI as catbAbI has them.

python -m automata.babi FOLDER
"""

import argparse
import sys
from collections.abc import Sequence
from functools import partial
from typing import get_args

from automata.babi.stories import Counts, StoryPart, read_stories
from automata.command_line import Parser, exit_code


def command(argv: Sequence[str] | None = None) -> int:
    """Print a table of counts, a row for each part."""
    parser = Parser(
        "python -m automata.babi", __doc__, formatter_class=argparse.ArgumentDefaultsHelpFormatter
    )
    parser.add_argument("path", help="a folder with qa1_train.txt and so on, or a .tar.gz of one")
    parser.add_argument(
        "--last-story",
        action="store_true",
        help="count the last story of every file, which catbAbI leaves out",
    )
    given = parser.parse_args(argv)
    rows = []
    for part in get_args(StoryPart):
        stories = read_stories(given.path, part, last_story=given.last_story)
        found = Counts.of(stories)
        tasks = len({story.task for story in stories})
        rows.append((part, tasks, found.stories, found.questions, found.tokens, found.words))
    print(f"{'part':<5}  {'tasks':>5}  {'stories':>7}  {'questions':>9}  {'tokens':>6}  {'words':>5}")
    for part, tasks, count, questions, tokens, words in rows:
        print(f"{part:<5}  {tasks:>5}  {count:>7}  {questions:>9}  {tokens:>6}  {words:>5}")
    return 0


main = partial(exit_code, command)


if __name__ == "__main__":
    sys.exit(main())
