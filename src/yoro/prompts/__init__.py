"""What stands around or over an image before the frozen model sees it."""
