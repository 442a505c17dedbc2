"""What the page shows of an image that is tried: the answer, why, and which parts of it mattered."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from yoro.data.thumbnails import thumbnail
from yoro.model.answers import log_answers
from yoro.model.model import Json
from yoro.model.question import Question
from yoro.studio.background_learner import Learner
from yoro.studio.page_data import DIGITS
from yoro.studio.solving import Learned
from yoro.studio.workspace import Workspace
from yoro.trust.answering import Answerer
from yoro.trust.occlusion import occlusion_map

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
