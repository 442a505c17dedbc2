"""What is shown at once after a step, and what it settles to."""

from __future__ import annotations

from dataclasses import replace

import pytest

import yoro
from child import wait_until
from yoro.model.pipeline import make_pipeline
from yoro.model.settings import PipelineSettings
from yoro.studio import background_learner, solving
from yoro.studio.background_learner import Learner
from yoro.studio.incoming_photos import add_data
from yoro.studio.solving import SolveTask
from yoro.studio.workspace import Workspace


class Watched:
    """A learner, and every classifier that it showed."""

    def __init__(self, folder):
        self.shown = []
        self.work = Workspace(folder)
        self.learner = Learner(self.work, make_pipeline(PipelineSettings(read="logits")), self._look)

    def _look(self):
        newest = self.learner.learned
        if newest is not None and not any(newest is one for one in self.shown):
            self.shown.append(newest)

    def held(self, content):
        """Whether a solution is held that photos of the classes of a content can change."""
        held = self.learner._held
        return held is not None and held.learned.content == content and not held.worn(self.learner._responses)

    def settle(self):
        """All that is shown of the newest step, until nothing more comes."""
        self.shown.clear()
        self.learner.wake()
        wait_until(lambda: self.learner.settled == self.work.state.revision)
        return [one for one in self.shown if one.revision == self.work.state.revision]


@pytest.fixture
def watched(tmp_path, monkeypatch):
    monkeypatch.setattr(background_learner, "BRIEF", 0.0)  # as with many photos
    watched = Watched(tmp_path / "work")
    watched.learner.start()
    yield watched
    watched.learner.close()
    watched.work.close()


def answers_of(learned, photos):
    """What a user would get of the classifier that was learned."""
    return yoro.Classifier(learned.classifier.model, pipeline=learned.classifier.pipeline).predict_proba(photos)


def fitted_on(watched, learned):
    """What `yoro.fit` gives of the photos of a classifier."""
    names = {digest: watched.work.photo(digest) for digest in learned.content.photos}
    return yoro.fit([(str(path), learned.content.photos[digest]) for digest, path in names.items()], read="logits")


def test_few_photos_change_what_was_solved_until_it_settles_to_what_a_fit_gives(watched, photos):
    add_data(watched.work, photos, watched.learner.pipeline.geometry)
    watched.settle()
    whole = watched.learner.learned
    wait_until(lambda: watched.held(whole.content))
    solved = watched.learner._held.content
    watched.work.do(watched.work.state.removing(watched.work.state.members(2)[:2]))
    watched.work.do(watched.work.state.moving(watched.work.state.members(1)[:1], 3))
    first, last = watched.settle()
    assert (first.provisional, last.provisional) == (True, False)
    assert first.evaluation is whole.evaluation  # measured when it is chosen anew
    assert first.content == last.content
    assert watched.learner._held.content is solved  # nothing was solved anew
    tried, fitted = sorted(photos.rglob("*.jpg")), fitted_on(watched, last)
    assert answers_of(last, tried) == pytest.approx(fitted.predict_proba(tried), abs=1e-9)
    assert last.evaluation.accuracy == fitted.left_out().accuracy
    assert first.classifier.model.choice == whole.classifier.model.choice  # made for more photos


def test_photos_that_come_back_are_added_to_what_was_gathered(watched, photos, monkeypatch):
    add_data(watched.work, photos, watched.learner.pipeline.geometry)
    watched.settle()
    first, *some = watched.work.state.members(1)[:3]
    for gone in (some, [first]):
        watched.work.do(watched.work.state.removing(gone))
        watched.settle()
    assert len(watched.learner._held.learned.content) == 21
    for _ in range(2):
        watched.work.undo()
    watched.work.do(watched.work.state.removing([first]))
    monkeypatch.setattr(solving, "gathered_of", None)  # nothing is gathered anew
    last = watched.settle()[-1]
    assert (len(last.content), last.provisional) == (23, False)
    tried, fitted = sorted(photos.rglob("*.jpg")), fitted_on(watched, last)
    assert answers_of(last, tried) == pytest.approx(fitted.predict_proba(tried), abs=1e-9)
    assert sorted(last.classifier.model.ledger.entries()) == sorted(fitted.model.ledger.entries())


def test_what_is_changed_by_many_photos_is_solved_anew_once_there_is_time(watched, photos, monkeypatch):
    add_data(watched.work, photos, watched.learner.pipeline.geometry)
    watched.settle()
    monkeypatch.setattr(solving, "MOST_CHANGES", 4)
    watched.work.do(watched.work.state.removing(watched.work.state.members(2)[:2]))
    watched.settle()
    wait_until(lambda: watched.learner._held.content == watched.learner.learned.content)
    assert not watched.learner.learned.provisional


def test_a_step_is_answered_at_once_and_settles_to_what_a_fit_gives(watched, photos, monkeypatch):
    monkeypatch.setattr(solving, "MOST_HELD", 0)  # too many to be held
    add_data(watched.work, photos, watched.learner.pipeline.geometry)
    watched.settle()
    whole = watched.learner.learned
    assert not whole.provisional
    cat = next(number for number, name in watched.work.state.classes.items() if name == "cat")
    gone = watched.work.state.members(cat)[:2]
    watched.work.do(watched.work.state.removing(gone))
    first, last = watched.settle()
    assert (first.provisional, last.provisional) == (True, False)
    assert first.classifier.model.choice == whole.classifier.model.choice
    assert first.content == last.content
    assert first.evaluation.n == last.evaluation.n == 22
    fitted = fitted_on(watched, last)
    others = sorted((photos / "cat").iterdir())
    wanted = fitted.predict_proba(others)
    assert answers_of(last, others) == pytest.approx(wanted, abs=1e-9)
    assert abs(answers_of(first, others) - wanted).max() < 0.2  # near, by a choice made for more photos


def test_undoing_is_settled_at_once(watched, photos):
    add_data(watched.work, photos, watched.learner.pipeline.geometry)
    watched.settle()
    before = watched.learner.learned
    watched.work.do(watched.work.state.adding_class("late")[0])
    watched.work.do(watched.work.state.moving(watched.work.state.members(1)[:1], 5))
    watched.settle()
    watched.work.undo()
    (again,) = watched.settle()
    assert again.classifier is before.classifier
    assert len(watched.learner.curve) == 3  # what was held counts no step of its own


def test_a_long_import_is_one_point_of_the_curve(watched, photos, monkeypatch):
    monkeypatch.setattr(background_learner, "BETWEEN", 0.0)  # solved for after every forward pass
    add_data(watched.work, photos, watched.learner.pipeline.geometry)
    assert len(watched.settle()) > 1
    assert [point[0] for point in watched.learner.curve] == [24]


def test_a_result_that_comes_late_does_not_replace_that_of_a_newer_step(watched, photos):
    add_data(watched.work, photos, watched.learner.pipeline.geometry)
    watched.settle()
    newest, curve = watched.learner.learned, watched.learner.curve
    late = SolveTask(newest.content, None, 0, whole=True)
    watched.learner._show(late, replace(newest, revision=0))
    assert watched.learner.learned is newest
    assert (watched.learner.settled, watched.learner.curve) == (newest.revision, curve)


def test_a_result_that_comes_late_still_measures_what_is_shown(watched, photos):
    add_data(watched.work, photos, watched.learner.pipeline.geometry)
    watched.settle()
    exact = watched.learner.learned
    shown = replace(exact, provisional=True, evaluation=None, guesses={})
    watched.learner.learned, watched.learner._last = shown, []
    watched.learner._show(SolveTask(exact.content, None, 0, whole=True), exact)
    assert watched.learner.learned.provisional
    assert watched.learner.learned.classifier is shown.classifier
    assert (watched.learner.learned.evaluation, watched.learner.learned.guesses) == (exact.evaluation, exact.guesses)
    assert watched.learner._last == [exact]  # so that to go back to its step costs nothing


def test_a_new_photo_is_decoded_once(watched, photos, monkeypatch):
    asked = []
    decoders = watched.work.decoders
    decode = decoders.decode
    monkeypatch.setattr(decoders, "decode", lambda content, *rest: asked.append(content) or decode(content, *rest))
    add_data(watched.work, photos, watched.learner.pipeline.geometry)
    watched.settle()
    assert watched.learner.read() == (24, 24)
    assert (watched.learner.broken, watched.learner.said) == ({}, "")
    assert len(asked) == len(set(asked)) == 24


def test_steps_that_follow_each_other_settle_to_the_last(watched, photos):
    add_data(watched.work, photos, watched.learner.pipeline.geometry)
    watched.settle()
    for digest in watched.work.state.members(1)[:3]:
        watched.work.do(watched.work.state.removing([digest]))
        watched.learner.wake()
        wait_until(lambda: watched.learner.learned.revision == watched.work.state.revision)
    watched.settle()
    assert not watched.learner.learned.provisional
    assert len(watched.learner.learned.content) == 21
