"""Banks of class descriptions: reading them, matching them to classes, and sampling some for each class."""

from __future__ import annotations

import difflib
import re
import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from importlib import resources
from pathlib import Path
from zlib import crc32

import numpy as np

from yoro import limits
from yoro.data.examples import class_name, listed, shown, storable
from yoro.errors import InputError
from yoro.files.reading import read_bounded, read_json, refusing
from yoro.text.settings import EACH, Attributes

SHORTEST = 20  # characters; shorter stubs are used only if a class has nothing else

# Written for any class: appearance, parts, colour, texture and setting.
TEMPLATES = tuple(resources.files("yoro.text").joinpath("templates.txt").read_text(encoding="utf-8").splitlines())
BUILT_IN = ("templates", "names")


@dataclass(frozen=True)
class Bank:
    """The sentences chosen for each class, and how: they are the coordinates of the responses."""

    sentences: dict[str, tuple[str, ...]]
    origin: str  # "templates", "names", or the file they came from
    each: int = EACH
    seed: int = 0

    @property
    def classes(self) -> tuple[str, ...]:
        return tuple(sorted(self.sentences))

    def flat(self) -> tuple[list[str], tuple[str, ...]]:
        """All sentences, class after class, and the class of each."""
        pairs = [(sentence, name) for name in self.classes for sentence in self.sentences[name]]
        return [sentence for sentence, _ in pairs], tuple(name for _, name in pairs)

    def joined(self, other: Bank) -> Bank:
        """Both banks in one; a class of both must have the same sentences in both."""
        for name in sorted(self.sentences.keys() & other.sentences.keys()):
            if self.sentences[name] != other.sentences[name]:
                raise InputError(
                    f"The two banks have different sentences for {name!r}, such as {self.sentences[name][0]!r} and "
                    f"{other.sentences[name][0]!r}. Only models with the same sentences can be merged."
                )
        return replace(self, sentences=self.sentences | other.sentences)

    def renamed(self, names: Mapping[str, str]) -> Bank:
        """Classes under new names; classes given one name pool their sentences."""
        pooled: dict[str, tuple[str, ...]] = {}
        for name in self.classes:
            new = names.get(name, name)
            pooled[new] = pooled.get(new, ()) + self.sentences[name]
        return replace(self, sentences=pooled)

    def facts(self) -> dict[str, object]:
        """Everything but the sentences, as JSON-able values."""
        return {"origin": self.origin, "each": self.each, "seed": self.seed}


def make_bank(
    classes: Iterable[str], attributes: Attributes, *, each: int = EACH, seed: int = 0
) -> tuple[Bank, list[str]]:
    """A bank for these classes, and notes on anything odd about it.

    attributes : see `SentenceSettings`.
    each : sentences per class, sampled without replacement; a class with fewer repeats its own. If no class has as
        many, fewer are sampled.
    """
    wanted = sorted(set(classes))
    if not wanted:
        raise InputError("No classes were given to find sentences for.")
    if attributes is None or attributes == "templates":
        sentences = {name: tuple(fill_template(text, name) for text in TEMPLATES[:each]) for name in wanted}
        return Bank(sentences, "templates", each, seed), []
    if attributes == "names":
        return Bank({name: (spoken(name),) for name in wanted}, "names", each, seed), []
    given = read_sentences(attributes) if isinstance(attributes, str | Path) else dict(attributes)
    origin = Path(attributes).name if isinstance(attributes, str | Path) else "given"
    choices = {name: tidied(given[key]) for name, key in match_classes(wanted, given).items()}
    empty = [name for name, choice in choices.items() if not choice]
    if empty:
        raise InputError(f"The bank has no usable sentence for {listed(empty)}; add some, or remove these classes.")
    most = max(map(len, choices.values()))
    drawn = {name: draw(choice, min(each, most), seed, name) for name, choice in choices.items()}
    return Bank(drawn, origin, each, seed), _oddities(choices, each)


def read_sentences(path: str | Path) -> dict[str, list[str]]:
    """The content of a file {class: [sentences]}, checked."""
    file = Path(path)
    if not file.is_file():
        expected = "a JSON file {class: [sentences]}, 'templates' or 'names'"
        raise InputError(f"There is no file '{shown(file)}'; expected {expected}.")
    with refusing(InputError, f"'{shown(file)}' is not a bank {{class: [sentences]}}"):
        content = read_json(file, limits.BANK_FILE_BYTES)
    return check_sentences(content, f"'{shown(file)}'")


def read_classes(path: str | Path) -> list[str]:
    """Class names from a text file, one per line, or the classes of a bank (.json)."""
    file = Path(path)
    if file.suffix.lower() == ".json":
        return list(read_sentences(file))
    try:
        lines = read_bounded(file, limits.BANK_FILE_BYTES).decode("utf-8-sig").splitlines()
    except UnicodeDecodeError:
        raise InputError(f"'{shown(file)}' is not UTF-8 text; expected class names, one per line.") from None
    except ValueError as error:
        raise InputError(f"'{shown(file)}': {error}; expected class names, one per line.") from None
    names = [class_name(line) for line in lines if line.strip()]
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice or not names:
        odd = f"names {listed(twice)} twice" if twice else "names no class"
        raise InputError(f"'{shown(file)}' {odd}; expected class names, one per line.")
    return names


def check_sentences(content: object, where: str) -> dict[str, list[str]]:
    """A mapping {class: [sentences]} from a stranger, or an error."""
    if not isinstance(content, dict):
        raise InputError(f"{where} holds {type(content).__name__}; expected an object {{class: [sentences]}}.")
    if not content:
        raise InputError(f"{where} is empty: it describes no class.")
    result: dict[str, list[str]] = {}
    for name, sentences in content.items():
        if not isinstance(sentences, list) or not all(isinstance(sentence, str) for sentence in sentences):
            raise InputError(f"{where}: class {name!r} has {type(sentences).__name__}; expected a list of sentences.")
        if any(storable(sentence) != sentence for sentence in sentences):
            raise InputError(f"{where}: class {name!r} has a sentence that is not text.")
        if any(len(sentence) > limits.SENTENCE_LENGTH for sentence in sentences):
            raise InputError(f"{where}: class {name!r} has a text of over {limits.SENTENCE_LENGTH:,} characters.")
        spelled = class_name(name)
        if not spelled or spelled in result:
            wrong = f"the class {spelled!r} twice" if spelled else "a class whose name cannot be seen"
            raise InputError(f"{where} has {wrong}.")
        result[spelled] = sentences
    if sum(map(len, result.values())) > limits.BANK_SENTENCES:
        raise InputError(f"{where} has over {limits.BANK_SENTENCES:,} sentences.")
    return result


def tidied(sentences: Iterable[str]) -> list[str]:
    """Cleaned sentences: no outer blanks or leading commas, no repeats, stubs or bare punctuation."""
    clean = (re.sub(r"\s+", " ", sentence).lstrip(" ,.;:-").rstrip() for sentence in sentences)
    unique = list(dict.fromkeys(sentence for sentence in clean if any(c.isalnum() for c in sentence)))
    long_enough = [sentence for sentence in unique if len(sentence) >= SHORTEST]
    return long_enough or unique


def match_classes(classes: Iterable[str], bank: Iterable[str]) -> dict[str, str]:
    """The bank's spelling of each class, regardless of case, underscores, hyphens and spaces."""
    spellings: dict[str, list[str]] = {}
    keys = list(bank)
    for key in keys:
        spellings.setdefault(_plain(key), []).append(key)
    found, lost = {}, []
    for name in classes:
        same = [name] if name in keys else spellings.get(_plain(name), [])
        if len(same) > 1:
            raise InputError(f"Class {name!r} matches several of the bank: {listed(same)}. Rename it to one of them.")
        if same:
            found[name] = same[0]
        else:
            lost.append(name)
    if lost:
        raise InputError(f"The bank has no sentences for {listed(lost)}.{_near(lost[0], keys)}")
    return found


def draw(sentences: Sequence[str], count: int, seed: int, name: str) -> tuple[str, ...]:
    """`count` sentences without replacement, repeated if there are fewer; every class has its own generator."""
    generator = np.random.default_rng([seed, crc32(name.encode("utf-8", "surrogatepass")), len("sentences")])
    order = generator.permutation(len(sentences))
    return tuple(sentences[order[i % len(order)]] for i in range(count))


def spoken(name: str) -> str:
    """A class name as text: underscores become spaces."""
    return " ".join(name.replace("_", " ").split()) or name


def fill_template(template: str, name: str) -> str:
    """The template for a class: {name} is its name, {a} the name with its article."""
    said = spoken(name)
    article = "an" if said[:1].lower() in set("aeiou") else "a"
    return template.replace("{a}", f"{article} {said}").replace("{name}", said)


def _oddities(choices: Mapping[str, Sequence[str]], each: int) -> list[str]:
    short = [name for name, choice in choices.items() if len(choice) < each]
    if len(short) == len(choices):
        most = max(map(len, choices.values()))
        return [f"No class has {each} sentences; {most} per class are used."]
    return [f"Fewer than {each} sentences, so some are repeated: {listed(short)}."] if short else []


def _plain(name: str) -> str:
    folded = unicodedata.normalize("NFKC", name).casefold()
    return " ".join(re.sub(r"[\s_\-]+", " ", folded).split())


def _near(name: str, keys: Sequence[str]) -> str:
    close = difflib.get_close_matches(_plain(name), [_plain(key) for key in keys], n=1, cutoff=0.6)
    if close:
        key = next(key for key in keys if _plain(key) == close[0])
        return f" Its nearest class to {name!r} is {key!r}."
    return f" It describes {listed(list(keys))}."
