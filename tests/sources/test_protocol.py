from __future__ import annotations

import numpy as np

from yoro.sources.protocol import layout_of, with_defaults


def test_a_source_of_a_user_gets_the_members_that_it_lacks():
    class Own:
        name, side, width, notes = "own", 4, 3, ("Mind the step.",)

        def respond(self, images):
            return np.ones((len(images), self.width), np.float32)

    source = with_defaults(Own())
    assert (source.layout, source.preferred_batch, source.outcome()) == (None, 1, "")
    assert source.notes == ("Mind the step.",)  # its own comes first
    assert layout_of(source).width == source.respond(np.zeros((2, 4, 4, 3))).shape[1]
    assert with_defaults(source) is source
