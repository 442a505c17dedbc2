"""What the prompt-training loop of `yoro.refine` works with: images, heads, recipes, checkpoints, and their uses."""
