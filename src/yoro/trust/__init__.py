"""Trust: OOD detection, conformal prediction sets, label issues, explanations, unlearning, advice."""
