"""What stands around or over an image before the frozen model sees it."""

from yoro.prompts.prompt import PROMPTS, Prompt, make_prompt
from yoro.prompts.restore import restore_prompt

__all__ = ["PROMPTS", "Prompt", "make_prompt", "restore_prompt"]
