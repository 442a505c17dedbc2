"""The JSON that the page shows: the state, photos, an answer and why, the confusion matrix."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

from yoro.errors import InputError
from yoro.model.answers import image_answers
from yoro.model.metrics import wilson_interval
from yoro.model.model import Json
from yoro.model.question import Question
from yoro.studio.background_learner import Learner
from yoro.studio.edits import FORGOTTEN, UNSORTED, Photo
from yoro.studio.solving import Guess, Learned
from yoro.studio.workspace import Workspace
from yoro.trust.answering import Answerer

STRANGE = 0.05  # what is no more typical than this share of the photos is unknown
SOON = 0.5  # seconds that an answer waits for the out-of-distribution measure
BARS, NEAREST = 12, 6
MOST_CELLS = 60  # classes whose matrix is shown
SUSPICIOUS, UNREADABLE, OUTLIERS, TWINS = -1, -2, -4, -5  # lists other than classes
DIGITS = 4


def state_of(work: Workspace, learner: Learner) -> Json:
    """The whole state except the photos."""
    with work.lock:
        state = work.state
        classes, counts, unseen, revision = dict(state.classes), state.counts(), state.unseen(), state.revision
        opened = state.model
        photos = frozenset(digest for digest, photo in state.photos.items() if photo.belongs != FORGOTTEN)
        undo, redo = (steps[-1].what if steps else None for steps in (state.done, state.undone))
    learned, (read, total) = learner.learned, learner.read()
    recalls = _recalls(learned)
    evaluation = learned.evaluation if learned else None
    return {
        "revision": revision,
        "classes": [
            {"id": number, "name": name, "count": counts[number], "unseen": unseen[number], "recall": recalls.get(name)}
            for number, name in classes.items()
        ],
        "unsorted": counts[UNSORTED],
        "model": opened and {"name": opened.name, "unseen": sum(unseen.values())},
        "suspicious": len(photos.intersection(suspicious(learned))),
        "outliers": len(photos.intersection(_judged(learned, OUTLIERS))),
        "twins": len(photos.intersection(_judged(learned, TWINS))),
        "unreadable": len(photos.intersection(list(learner.broken))),
        "undo": undo,
        "redo": redo,
        "read": read,
        "photos": total,
        "settled": learner.settled == revision and read == total,
        "learned": learned is not None,
        "answered": learned.revision if learned is not None else None,
        "choosing": learned is not None and learned.provisional,
        "judged": learned is None or learned.judgement.made.is_set(),
        "said": learner.said,
        "seconds": round(learned.seconds, 3) if learned else None,
        "accuracy": None if evaluation is None else round(evaluation.accuracy, DIGITS),
        "interval": None if evaluation is None else [round(bound, DIGITS) for bound in evaluation.interval],
        "measured": 0 if evaluation is None else evaluation.n,
        "curve": [[n, *(round(value, DIGITS) for value in rest)] for n, *rest in learner.curve],
        "needs": _needs(classes, {n: counts[n] + unseen[n] for n in classes}, learned),
    }


def photos_of(work: Workspace, learner: Learner, which: int, offset: int, most: int) -> Json:
    """A page of the photos of a class or of one of the other lists."""
    if which == SUSPICIOUS:
        digests = suspicious(learner.learned)
    elif which == UNREADABLE:
        digests = list(learner.broken)
    elif which in (OUTLIERS, TWINS):
        digests = list(_judged(learner.learned, which))
    else:
        with work.lock:
            digests = work.state.members(which)
    return _listed(work, learner, digests, offset, most)


def cell_of(work: Workspace, learner: Learner, truth: str, answer: str) -> Json:
    """The photos of one class that were classified as another, or rightly."""
    learned = learner.learned
    if learned is None:
        return {"total": 0, "photos": []}
    with work.lock:
        number = work.state.named(truth)
        mine = set() if number is None else set(work.state.members(number))
    found = [d for d, guess in learned.guesses.items() if guess.answer == answer and d in mine]
    return _listed(work, learner, sorted(found, key=lambda d: -learned.guesses[d].margin), 0, 500)


def confusion_of(learner: Learner) -> Json:
    """The leave-one-out confusion matrix; rows are labels, columns predictions."""
    evaluation = learner.learned.evaluation if learner.learned else None
    if evaluation is None:
        return {"classes": [], "counts": [], "hidden": 0}
    names = [figures.name for figures in evaluation.per_class]
    if len(names) > MOST_CELLS:
        return {"classes": [], "counts": [], "hidden": len(names)}
    return {"classes": names, "counts": [list(row) for row in evaluation.confusion], "hidden": 0}


def suspicious(learned: Learned | None) -> list[str]:
    """Photos that look like another class than their label, the most suspicious first."""
    if learned is None:
        return []
    wrong = [(guess.margin, digest) for digest, guess in learned.guesses.items() if guess.margin > 0]
    return [digest for _, digest in sorted(wrong, reverse=True)]


def _judged(learned: Learned | None, which: int) -> tuple[str, ...]:
    """Outliers or near duplicates, as soon as they are found."""
    if learned is None:
        return ()
    return learned.judgement.outliers if which == OUTLIERS else learned.judgement.twins


def answer_of(work: Workspace, learned: Learned | None, said: str, response: NDArray[np.floating]) -> Json:
    """What the classifier says of an image: bars, whether it is unknown, and why."""
    if learned is None:
        raise InputError(said or "There is no classifier yet; add photos of at least two classes.")
    row = response[None]
    answers, model = learned.answers(["the image"], row), learned.classifier.model
    why = learned.sums(answers, 0)
    judged = learned.judgement.made.wait(SOON)
    least = max(STRANGE, 1.0 / (1.0 + model.statistics.total)) + 1e-12  # less than all photos, where these are few
    answerer = Answerer(model, Question(top=BARS, unknown=least), learned.judgement.measure)
    (answer,) = answerer.each(answers)
    with work.lock:
        photos = work.state.photos
        near = [
            {"digest": one.digest, "label": one.label, "similarity": round(one.similarity, DIGITS)}
            for one in learned.fitted.nearest(row, NEAREST)[0]
            if one.digest in photos
        ]
    return {
        "label": answer.best[0][0],
        "bars": [{"name": name, "probability": round(share, 6)} for name, share in answer.best],
        "unknown": answer.unknown,
        "judged": judged,
        "typicality": None if answer.typicality is None else round(answer.typicality, DIGITS),
        "nearest": near,
        "second": why.second,
        "prior": round(why.prior, DIGITS),
        "parts": [{"reading": part.reading, "value": round(part.value, DIGITS)} for part in why.parts],
        "revision": learned.revision,
    }


def _listed(work: Workspace, learner: Learner, digests: Iterable[str], offset: int, most: int) -> Json:
    with work.lock:
        photos, classes = work.state.photos, dict(work.state.classes)
        found = [(d, photos[d]) for d in digests if d in photos and photos[d].belongs != FORGOTTEN]
    part = found[offset : offset + most]
    guesses = _guesses(learner, part)
    return {
        "total": len(found),
        "photos": [
            {
                "digest": digest,
                "name": photo.name,
                "class": photo.belongs,
                "label": classes.get(photo.belongs, ""),
                "guess": None if (guess := guesses.get(digest)) is None else guess.answer,
                "probability": None if guess is None else round(guess.probability, DIGITS),
                "doubtful": guess is not None and photo.belongs != UNSORTED and guess.margin > 0,
                "error": learner.broken.get(digest),
            }
            for digest, photo in part
        ],
    }


def _guesses(learner: Learner, part: list[tuple[str, Photo]]) -> dict[str, Guess]:
    """Leave-one-out predictions of labelled photos, and plain predictions of unsorted ones."""
    learned = learner.learned
    if learned is None:
        return {}
    found = {digest: learned.guesses[digest] for digest, _ in part if digest in learned.guesses}
    rows = {d: learner.response(d) for d, photo in part if photo.belongs == UNSORTED}
    read = {digest: row for digest, row in rows.items() if row is not None}
    if read:
        answers = learned.answers(list(read), np.stack(list(read.values())))
        for answer in image_answers(answers, Question(), learned.classifier.names):
            label, probability = answer.best[0]
            found[answer.name] = Guess(str(label), probability, 0.0)
    return found


def _recalls(learned: Learned | None) -> dict[str, float | None]:
    if learned is None or learned.evaluation is None:
        return {}
    return {figures.name: figures.recall for figures in learned.evaluation.per_class}


def _needs(classes: dict[int, str], counts: dict[int, int], learned: Learned | None) -> int | None:
    """The class with the lowest lower bound of its recall, which is also low if it has few photos."""
    evaluation = learned.evaluation if learned else None
    bounds = {
        one.name: wilson_interval(one.recall, one.n)[0]
        for one in (evaluation.per_class if evaluation else ())
        if one.n and one.recall is not None
    }
    return min(classes, key=lambda n: (bounds.get(classes[n], 0.0), counts[n], n), default=None)
