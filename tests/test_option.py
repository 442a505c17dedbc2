from __future__ import annotations

import inspect
from collections import Counter

import yoro
from yoro.http.settings import ServeSettings
from yoro.model.settings import FitSettings
from yoro.option import declared
from yoro.refining.settings import RefineSettings


def test_an_option_of_fit_belongs_to_one_group():
    assert Counter(one.name for one in declared(FitSettings)).most_common(1)[0][1] == 1


def test_fit_has_the_signature_of_its_options():
    shown = inspect.signature(yoro.fit).parameters
    options = {one.name: one for one in declared(FitSettings)}
    assert list(shown) == ["data", "labels", "val", "unlabelled", *options]
    for name, one in options.items():
        assert shown[name].kind is inspect.Parameter.KEYWORD_ONLY
        assert shown[name].default == (None if name == "tell" else one.default)
    assert shown["workers"].default is None  # strangers' images are decoded in processes that can be killed


def test_the_help_of_fit_describes_every_option():
    words = " ".join(inspect.getdoc(yoro.fit).split())
    for one in declared(FitSettings):
        assert f"{one.name} {one.text}" in words


def test_every_option_has_a_sentence():
    for settings in (FitSettings, RefineSettings, ServeSettings):
        for one in declared(settings):
            assert one.option.help.endswith("."), one.name
            assert one.option.details == "" or one.option.details.endswith("."), one.name
