"""Published reprogramming methods, trained in the loop."""
