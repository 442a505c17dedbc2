"""What is behind an answer: labels that look wrong, images that look strange, sets and explanations."""
