"""The stories of bAbI, in the form of catbAbI."""

from automata.babi.stories import QUESTION, TASK_NAMES, Counts, Story, StoryPart, parse_stories, read_stories

__all__ = ["QUESTION", "TASK_NAMES", "Counts", "Story", "StoryPart", "parse_stories", "read_stories"]
