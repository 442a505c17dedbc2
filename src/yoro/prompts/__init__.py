"""Visual prompts: what is added around or over an image before the frozen model sees it."""
