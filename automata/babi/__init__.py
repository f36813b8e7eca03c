"""The stories of bAbI, in the form of catbAbI."""

from automata.babi.stories import (
    QUESTION as QUESTION,
    TASK_NAMES as TASK_NAMES,
    Counts as Counts,
    Story as Story,
    StoryPart as StoryPart,
    parse_stories as parse_stories,
    read_stories as read_stories,
)
