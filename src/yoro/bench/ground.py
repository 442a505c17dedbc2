"""What a method of the bench is given, and what it hands back."""

from __future__ import annotations


class Ground: ...


class Answer: ...
