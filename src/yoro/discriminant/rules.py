"""The shrinkage selection rules by name, and what each needs besides the statistics."""

from __future__ import annotations

from collections.abc import Mapping

from yoro.errors import InputError, SelectionError

MEMBERS = "individual responses"
VALIDATION = "validation data"
RULES: dict[str, str | None] = {
    "loo": MEMBERS,
    "validation": VALIDATION,
    "k-fold": MEMBERS,
    "oas": None,
    "rblw": None,
    "ledoit-wolf": MEMBERS,
}
NUMBER = "a number from 0 to 1"


def check_rule(rule: str | float) -> str | float:
    """The name of a rule, or a shrinkage; a number may be written out.

    >>> check_rule("oas"), check_rule("0.1"), check_rule(1)
    ('oas', 0.1, 1.0)
    """
    if rule in RULES:
        return rule
    try:
        return check_shrinkage(float(rule))
    except ValueError:
        raise InputError(f"Unknown shrinkage rule {rule!r}; choose one of {', '.join(RULES)}, or {NUMBER}.") from None


def check_shrinkage(rho: float) -> float:
    """A shrinkage between 0 and 1, or an error."""
    if not 0.0 <= rho <= 1.0:
        raise InputError(f"shrinkage is {rho}; expected {NUMBER}.")
    return float(rho)


def check_prior(prior: object) -> None:
    """Raise if this cannot be a prior, whatever the classes."""
    if prior not in ("empirical", "uniform") and not isinstance(prior, Mapping):
        raise InputError(f"Unknown prior {prior!r}; use 'empirical', 'uniform' or a table of class names to weights.")


def working_rules(*have: str, besides: str = "") -> str:
    """The rules that work with what there is, as text.

    >>> working_rules(MEMBERS, besides="loo")
    'k-fold, oas, rblw, ledoit-wolf, a number from 0 to 1'
    """
    able = [rule for rule, need in RULES.items() if (need is None or need in have) and rule != besides]
    return ", ".join([*able, NUMBER])


def rule_unavailable(rule: str, *have: str) -> SelectionError:
    """The error that a rule's input is missing, with the rules that still work."""
    return SelectionError(
        f"The rule {rule!r} needs {RULES[rule]}, and there are none. "
        f"Rules that work here: {working_rules(*have, besides=rule)}."
    )
