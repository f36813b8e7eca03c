"""The hook that MkDocs calls when it builds the site: it adds the pages that are made from code."""

import sys
from pathlib import Path

import torch
from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))  # MkDocs may have been started by its script

from implicit_ssm import __version__  # noqa: E402
from website.commands import commands_page  # noqa: E402
from website.gallery import gallery_page, pictures  # noqa: E402
from website.links import PAGES, relinked, with_formulas  # noqa: E402
from website.names import names_pages  # noqa: E402
from website.questions import questions_page  # noqa: E402

WITH_FORMULAS = {
    "belief.md",
    "compiled_automata.md",
    "compiled_automata_measured.md",
    "compiled_automata_proofs.md",
    "compiled_automata_floats.md",
    "error_control.md",
    "how_many_sweeps.md",
    "index.md",
    "theorem1_proved.md",
    "theory.md",
    "what_can_be_tracked.md",
    "when_modes_agree.md",
}


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """Let every page say of which version it is."""
    config.copyright = f"implicit-ssm {__version__}, Apache-2.0"
    return config


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the generated pages and pictures."""
    torch.set_num_threads(1)
    drawn = pictures()
    contents: dict[str, str | bytes] = {
        "commands.md": commands_page(),
        "questions.md": questions_page(),
        "gallery.md": gallery_page(drawn),
        **names_pages(),
        **{picture.file: picture.png for picture in drawn},
    }
    for file, page in PAGES.items():
        contents[page] = relinked((ROOT / file).read_text(encoding="utf-8"), file)
    for path, content in contents.items():
        files.append(File.generated(config, path, content=content))
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:  # noqa: ARG001
    """Make links to files outside of ``docs/`` right, and raise and lower the indices of formulas."""
    path = page.file.src_uri
    if (ROOT / "docs" / path).is_file():
        markdown = relinked(markdown, f"docs/{path}")
    return with_formulas(markdown) if path in WITH_FORMULAS else markdown
