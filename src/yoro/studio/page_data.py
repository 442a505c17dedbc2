"""The JSON that the page shows: the state, photos, the confusion matrix; the answer to an image that is tried."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from yoro.data.thumbnails import thumbnail
from yoro.model.answers import image_answers, log_answers
from yoro.model.metrics import Evaluation, wilson_interval
from yoro.model.model import Json
from yoro.model.question import Question
from yoro.studio.background_learner import Learner
from yoro.studio.edits import FORGOTTEN, UNSORTED, Photo
from yoro.studio.solving import Guess, Learned
from yoro.studio.workspace import Workspace
from yoro.trust.answering import Answerer
from yoro.trust.occlusion import occlusion_map

MOST_CELLS = 60  # classes whose matrix is shown
SUSPICIOUS, UNREADABLE, OUTLIERS, TWINS, TESTS, HARD = -1, -2, -4, -5, -6, -7  # lists other than classes
DIGITS = 4


def state_of(work: Workspace, learner: Learner) -> Json:
    """The whole state except the photos."""
    with work.lock:
        state = work.state
        classes, counts, unseen, revision = dict(state.classes), state.counts(), state.unseen(), state.revision
        opened = state.model
        photos = frozenset(digest for digest, photo in state.photos.items() if photo.belongs != FORGOTTEN)
        checked = {digest for digest, photo in state.photos.items() if photo.checked}
        tests = state.test_set()
        undo, redo = (steps[-1].what if steps else None for steps in (state.done, state.undone))
    learned, (read, total) = learner.learned, learner.read()
    recalls = _recalls(learned)
    strong, hard = doubtful(learned)
    return {
        "work": work.key,
        "revision": revision,
        "classes": [
            {"id": number, "name": name, "count": counts[number], "unseen": unseen[number], "recall": recalls.get(name)}
            for number, name in classes.items()
        ],
        "unsorted": counts[UNSORTED],
        "model": opened and {"name": opened.name, "unseen": sum(unseen.values())},
        "suspicious": len(photos.intersection(strong) - checked),
        "hard": len(photos.intersection(hard) - checked),
        "wrong": len(strong),
        "tests": len(tests),
        "tested": _figures(learned.tested if learned else None),
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
        **_figures(learned.evaluation if learned else None),
        "curve": [[n, *(round(value, DIGITS) for value in rest)] for n, *rest in learner.curve],
        "needs": _needs(classes, {n: counts[n] + unseen[n] for n in classes}, learned),
    }


def photos_of(work: Workspace, learner: Learner, which: int, offset: int, most: int) -> Json:
    """A page of the photos of a class or of one of the other lists."""
    if which in (SUSPICIOUS, HARD):
        with work.lock:
            photos = work.state.photos
        found = doubtful(learner.learned)[which == HARD]
        digests = [digest for digest in found if digest in photos and not photos[digest].checked]
    elif which == TESTS:
        with work.lock:
            digests = work.state.test_set()
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


def doubtful(learned: Learned | None) -> tuple[list[str], list[str]]:
    """Photos that look like another class than their label, the most suspicious first.

    As many as there are labels expected to be wrong; and the others, which are merely hard.
    """
    if learned is None:
        return [], []
    wrong = sorted(
        ((guess.margin, digest) for digest, guess in learned.guesses.items() if guess.margin > 0), reverse=True
    )
    digests = [digest for _, digest in wrong]
    return digests[: learned.wrong], digests[learned.wrong :]


def _figures(evaluation: Evaluation | None) -> Json:
    """How many photos of an evaluation are right, and the interval of the accuracy."""
    if evaluation is None:
        return {"measured": 0, "right": 0, "accuracy": None, "interval": None}
    return {
        "measured": evaluation.n,
        "right": round(evaluation.accuracy * evaluation.n),
        "accuracy": round(evaluation.accuracy, DIGITS),
        "interval": [round(bound, DIGITS) for bound in evaluation.interval],
    }


def _judged(learned: Learned | None, which: int) -> tuple[str, ...]:
    """Outliers or near duplicates, as soon as they are found."""
    if learned is None:
        return ()
    return learned.judgement.outliers if which == OUTLIERS else learned.judgement.twins


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
                "doubtful": guess is not None and photo.belongs != UNSORTED and guess.margin > 0 and not photo.checked,
                "aside": photo.aside,
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
    known = learned.guesses | learned.test_guesses
    found = {digest: known[digest] for digest, _ in part if digest in known}
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


STRANGE = 0.05  # an image is unknown if at most this share of the photos is as unusual
SOON = 0.5  # seconds that an answer waits for the out-of-distribution measure
BARS, NEAREST = 12, 6
GRID = 7  # cells to a side that are covered one by one
DIM = 0.25  # brightness of the parts that do not matter
PICTURE = 320  # pixels of a side


def answer_of(work: Workspace, learned: Learned, response: NDArray[np.floating], digest: str = "") -> Json:
    """What the classifier says of an image: bars, whether it is unknown, and why."""
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
        "left_out": _left_out(learned, digest),
        "revision": learned.revision,
    }


def mattered(learner: Learner, image: NDArray[np.uint8]) -> bytes:
    """A JPEG of a decoded image in which the parts are bright that the answer rests on (an occlusion map)."""
    model = learner.classifier().classifier.model
    with learner.network:
        logs = log_answers(model, learner.pipeline.respond(image[None]))[0]
        second, best = np.argsort(logs)[-2:]

        def score(responses: NDArray[np.floating]) -> NDArray[np.float64]:
            found = log_answers(model, responses)
            return np.asarray(found[:, best] - found[:, second])

        falls = occlusion_map(learner.pipeline, image, score, GRID, float(logs[best] - logs[second]))
    shares = np.sqrt(np.clip(falls, 0.0, None) / max(float(falls.max()), 1e-9))
    light = Image.fromarray((255 * shares).astype(np.uint8)).resize(image.shape[:2], Image.Resampling.BICUBIC)
    bright = DIM + (1.0 - DIM) * np.asarray(light, dtype=np.float64)[:, :, None] / 255.0
    return thumbnail((image * bright).astype(np.uint8), PICTURE)


def _left_out(learned: Learned, digest: str) -> Json | None:
    """What a classifier without this photo says of it, if this one was learned from it."""
    guess = learned.guesses.get(digest)
    return None if guess is None else {"label": guess.answer, "probability": round(guess.probability, DIGITS)}
