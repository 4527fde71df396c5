"""The maths of an optimizer step, the same for every engine."""
