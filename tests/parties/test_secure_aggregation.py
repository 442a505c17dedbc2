from __future__ import annotations

import json
import shutil

import numpy as np
import pytest
from scipy.stats import chisquare

import yoro
from parties_cases import EIGHT, begin, dealt, key, play, pooled, solved, summed
from photos import write_folder
from yoro.discriminant.readings import Layout
from yoro.errors import InputError, StoreError
from yoro.model.partial_pass import DataShare, gather_shard
from yoro.model.settings import FitSettings, PipelineSettings
from yoro.parties.agreement import FILE
from yoro.parties.fixed_point import BITS, encode, subtract
from yoro.parties.masks import mask, pair_sign
from yoro.parties.moments import to_vector
from yoro.parties.secure_aggregation import Session, confirm, join, send, total
from yoro.trust.unlearning import largest_difference

THREE = ("east", "north", "west")


@pytest.fixture(scope="module")
def eight(digits):
    return dealt(digits[0][:900], digits[1][:900], EIGHT)


@pytest.fixture(scope="module")
def three(digits):
    return dealt(digits[0][:300], digits[1][:300], THREE)


@pytest.fixture
def done(tmp_path, three):
    return play(tmp_path / "s", three)


@pytest.mark.parametrize("rule", ["oas", "rblw", 0.01, 0.5])
def test_eight_parties_equal_the_pooled_fit(tmp_path, eight, digits, rule):
    shard, agreed = total(play(tmp_path / "s", eight))
    assert agreed.added == EIGHT
    mine = solved(shard, rule)
    whole = yoro.fit((digits[0][:900], digits[1][:900]), shrinkage=rule, reservoir=0).model
    assert largest_difference(mine, whole) < 1e-9
    np.testing.assert_array_equal(mine.statistics.counts, whole.statistics.counts)


def responses_of_photos(folder, read):
    photos = write_folder(folder / "photos", count=10)
    settings = FitSettings(pipeline=PipelineSettings(read=read))
    return [gather_shard(photos, settings, DataShare(i, 8), sums_only=True).shard for i in range(1, 9)], photos


@pytest.mark.parametrize("read", ["features", pytest.param("all", marks=pytest.mark.long)])
def test_eight_parties_with_photos_equal_the_pooled_fit(tmp_path, read):
    """Each party has one or two of the four classes."""
    shards, photos = responses_of_photos(tmp_path, read)
    data = {party: shard.gathered.statistics for party, shard in zip(EIGHT, shards, strict=True)}
    shard, _ = total(play(tmp_path / "s", data, origin=shards[0].origin))
    mine = solved(shard)
    whole = gather_shard(photos, FitSettings(pipeline=PipelineSettings(read=read)), sums_only=True).shard
    assert largest_difference(mine, solved(whole)) < 1e-9
    if read != "all":  # with several readings a fit that keeps no responses is one whose features answer alone
        assert largest_difference(mine, yoro.fit(photos, read=read, shrinkage="oas", reservoir=0).model) < 1e-9


def as_numbers(limbs):
    return [limbs[:, 0].astype(np.float64), limbs[:, 1].astype(np.int64).astype(np.float64)]


def evenness(limbs):
    """The probability that bytes of random numbers are spread as unevenly as these."""
    return chisquare(np.bincount(np.ascontiguousarray(limbs).view(np.uint8).ravel(), minlength=256)).pvalue


def correlation(one, two):
    return abs(np.corrcoef(one, two)[0, 1])


def test_no_message_correlates_with_its_partys_data(tmp_path, eight):
    """Both tests would tell: the integers before they are masked fail them."""
    session = play(tmp_path / "s", eight)
    classes = session.agreement.classes
    for party, statistics in eight.items():
        values = to_vector(statistics, classes, np.zeros(64))
        plain, masked = encode(values, BITS, 8), session.message(party).limbs
        bound = 5 / np.sqrt(len(values))  # five standard deviations
        assert evenness(masked) > 1e-6
        assert evenness(plain) < 1e-12
        for hidden in as_numbers(masked):
            assert correlation(hidden, values) < bound
            for bare in as_numbers(plain):
                assert correlation(hidden, bare) < bound
        assert correlation(as_numbers(plain)[1], values) > bound


def test_no_two_messages_show_anything_together_but_their_sum(tmp_path, eight):
    session = play(tmp_path / "s", eight)
    messages = [session.message(party).limbs for party in EIGHT]
    for i, one in enumerate(messages):
        for two in messages[i + 1 :]:
            between = one.copy()
            subtract(between, two)
            assert evenness(between) > 1e-6
            assert correlation(as_numbers(one)[1], as_numbers(two)[1]) < 5 / np.sqrt(len(one))


def test_two_sessions_of_the_same_data_share_nothing(tmp_path, three):
    one, two = (play(tmp_path / name, three) for name in "ab")
    for party in THREE:
        mine, theirs = one.message(party).limbs, two.message(party).limbs
        assert not (mine == theirs).any()
        between = mine.copy()
        subtract(between, theirs)  # would be zero under equal masks
        assert evenness(between) > 1e-6
        assert correlation(as_numbers(mine)[1], as_numbers(theirs)[1]) < 5 / np.sqrt(len(mine))
    assert one.context != two.context


def test_a_party_that_is_lost_is_left_out_and_the_rest_equal_their_pooled_fit(tmp_path, eight):
    lost = ("party-2", "party-5")
    rest = [party for party in EIGHT if party not in lost]
    shard, agreed = total(play(tmp_path / "s", eight, rest))
    assert agreed.lost == lost
    assert "Without party-2, party-5" in agreed.notes[0]
    assert largest_difference(solved(shard), solved(pooled([eight[party] for party in rest]))) < 1e-9


def test_a_message_that_comes_late_stays_closed(tmp_path, three):
    """The others have given away their masks with it; that of its own still hides it."""
    session = play(tmp_path / "s", three, ["east", "north"])
    with pytest.raises(InputError, match="confirmed without west"):
        send(session, three["west"], key(session.folder, "west"))
    other = tmp_path / "other"  # a party that does not see the confirmations yet
    shutil.copytree(session.folder, other)
    for party in ("east", "north"):
        (other / f"{party}.confirmed").unlink()
    late = Session(other)
    send(late, three["west"], key(session.folder, "west"))
    shutil.copy(other / "west.masked", session.folder)
    shard, agreed = total(session)
    assert agreed.lost == ("west",)
    assert largest_difference(solved(shard), solved(pooled([three["east"], three["north"]]))) < 1e-9
    with pytest.raises(InputError, match="confirmed without west"):
        confirm(session, key(session.folder, "west"))
    limbs = session.message("west").limbs.copy()
    for one in session.confirmations():
        mask(limbs, one.lost["west"], sign=-pair_sign("west", one.party))
    assert evenness(limbs) > 1e-6


def test_a_key_masks_one_message_and_confirms_one_set(tmp_path, three):
    session = begin(tmp_path / "s", THREE, three["east"].classes, three["east"].layout)
    for party in THREE:
        send(session, three[party], key(session.folder, party))
    before = session.message("east").digest
    send(session, three["east"], key(session.folder, "east"))  # the same again, as after a crash
    assert session.message("east").digest == before
    with pytest.raises(InputError, match="a key masks once"):
        send(session, three["north"], key(session.folder, "east"))
    assert session.message("east").digest == before
    confirm(session, key(session.folder, "east"))
    confirm(session, key(session.folder, "east"))
    (session.folder / "west.masked").unlink()
    with pytest.raises(InputError, match="Two different sums"):
        confirm(session, key(session.folder, "east"), ["west"])


def test_a_slow_party_is_left_out_only_if_it_is_named(tmp_path, three):
    session = begin(tmp_path / "s", THREE, three["east"].classes, three["east"].layout)
    for party in ("east", "north"):
        send(session, three[party], key(session.folder, party))
    with pytest.raises(InputError, match=r"No message of west .* --without west"):
        confirm(session, key(session.folder, "east"))
    with pytest.raises(InputError, match="north has sent a message"):
        confirm(session, key(session.folder, "east"), ["north", "west"])
    with pytest.raises(InputError, match="'wets' is not a party"):
        confirm(session, key(session.folder, "east"), ["wets"])
    assert not session.confirmations()
    send(session, three["west"], key(session.folder, "west"))
    for party in THREE:
        confirm(session, key(session.folder, party))
    assert total(session)[1].lost == ()


def test_too_few_parties_are_refused_and_two_are_warned(tmp_path, three):
    session = begin(tmp_path / "s", THREE, three["east"].classes, three["east"].layout, least=3)
    for party in ("east", "west"):
        send(session, three[party], key(session.folder, party))
    with pytest.raises(InputError, match="requires at least 3"):
        confirm(session, key(session.folder, "east"))
    few = play(tmp_path / "t", three, ["east", "west"])
    assert "each can subtract its own sums" in total(few)[1].notes[1]


def test_a_message_in_anothers_name_is_refused(done):
    shutil.copy(done.folder / "east.masked", done.folder / "west.masked")
    with pytest.raises(StoreError, match=r"comes from 'east', not from west"):
        total(done)


def test_one_changed_bit_is_noticed(done):
    file = done.folder / "east.masked"
    content = bytearray(file.read_bytes())
    content[-1] ^= 1
    file.write_bytes(content)
    with pytest.raises(StoreError, match="is not east's"):
        total(done)


@pytest.mark.parametrize("change", ["own", "lost", "messages", "party", "context"])
def test_a_changed_confirmation_is_noticed(done, change):
    file = done.folder / "east.confirmed"
    table = json.loads(file.read_text())
    table[change] = {
        "own": "00" * 32, "lost": {"west": "00" * 32}, "messages": {**table["messages"], "west": "0"},
        "party": "west", "context": "00" * 32,
    }[change]  # fmt: skip
    file.write_text(json.dumps(table))
    with pytest.raises(StoreError):
        total(done)


def test_an_agreement_that_was_changed_fits_no_key(done):
    file = done.folder / FILE
    table = json.loads(file.read_text())
    file.write_text(json.dumps(table | {"bits": 60}))
    with pytest.raises(StoreError, match="another agreement"):
        total(Session(done.folder))


def test_a_message_of_another_session_is_refused(tmp_path, done, three):
    other = play(tmp_path / "t", three)
    shutil.copy(other.folder / "east.masked", done.folder)
    with pytest.raises(StoreError, match="another session"):
        total(done)


def test_a_message_of_another_width_is_refused(tmp_path, done, digits):
    narrow = {party: summed(digits[0][:90, :8], digits[1][:90], Layout.of(8)) for party in THREE}
    other = play(tmp_path / "t", narrow)
    shutil.copy(other.folder / "east.masked", done.folder)
    with pytest.raises(StoreError, match="agreement requires"):
        total(done)
    with pytest.raises(InputError, match="width 8; the agreement has width 64"):
        send(done, narrow["east"], key(done.folder, "east"))


def test_a_public_key_put_in_anothers_place_is_noticed(tmp_path, three):
    session = begin(tmp_path / "s", THREE, three["east"].classes, three["east"].layout)
    (session.folder / "east.public").unlink()
    join(session, "east", tmp_path / "another.key")
    with pytest.raises(StoreError, match="is not that of"):
        send(Session(session.folder), three["east"], key(session.folder, "east"))


def test_who_has_joined_cannot_join_again(tmp_path, three):
    session = begin(tmp_path / "s", THREE, three["east"].classes, three["east"].layout)
    with pytest.raises(StoreError, match="east has joined already"):
        join(session, "east", tmp_path / "new.key")
    (session.folder / "north.public").unlink()
    with pytest.raises(StoreError, match=r"has the keys of east; give north a file of its own"):
        join(session, "north", key(session.folder, "east"))
    again = join(session, "north", key(session.folder, "north"))  # as after a kill in between
    assert again == session.joined()["north"]
    with pytest.raises(InputError, match="not a party"):
        join(session, "south", tmp_path / "new.key")


def test_what_is_missing_is_named(tmp_path, three):
    session = begin(tmp_path / "s", THREE, three["east"].classes, three["east"].layout)
    (session.folder / "west.public").unlink()
    with pytest.raises(InputError, match=r"west\.public is not in"):
        send(Session(session.folder), three["east"], key(session.folder, "east"))
    done = play(tmp_path / "t", three)
    (done.folder / "north.confirmed").unlink()
    with pytest.raises(InputError, match=r"north\.confirmed is not in"):
        total(done)


def test_secret_keys_are_for_their_owner_alone(tmp_path, three):
    session = begin(tmp_path / "s", THREE, three["east"].classes, three["east"].layout)
    file = key(session.folder, "east")
    assert file.stat().st_mode & 0o777 == 0o600
    send(session, three["east"], file)
    assert file.stat().st_mode & 0o777 == 0o600
    secret = json.loads(file.read_text())
    for path in session.folder.iterdir():
        content = path.read_bytes()
        for name in ("exchange", "signing", "seed"):
            assert secret[name].encode() not in content
            assert bytes.fromhex(secret[name]) not in content


def test_a_class_that_nobody_has_is_left_out(tmp_path, three):
    session = begin(tmp_path / "s", THREE, [*three["east"].classes, "unicorn"], three["east"].layout)
    for party in THREE:
        send(session, three[party], key(session.folder, party))
    for party in THREE:
        confirm(session, key(session.folder, party))
    shard, _ = total(session)
    assert "unicorn" not in shard.gathered.statistics.classes
    assert largest_difference(solved(shard), solved(pooled(list(three.values())))) < 1e-9


def test_a_total_counts_once(done):
    shard, _ = total(done)
    with pytest.raises(InputError, match="twice"):
        yoro.model.shards.merged([shard, shard])


def test_responses_far_from_zero_need_a_shift_and_have_it(tmp_path, three, digits):
    far = dealt(digits[0][:300] + 1e4, digits[1][:300], THREE)
    session = play(tmp_path / "s", far, shift=tuple([1e4 + 5.0] * 64))
    mine, whole = solved(total(session)[0]), solved(pooled(list(far.values())))
    np.testing.assert_allclose(mine.mapping.weights, whole.mapping.weights, rtol=0, atol=1e-9)
    size = np.abs(whole.mapping.bias).max()  # 1e6 and more, so far from zero
    assert largest_difference(mine, whole) < 1e-9 * size


def test_the_disk_is_full_and_nothing_is_half_written(tmp_path, three, monkeypatch):
    """The key notes what it masked before the message is written; the same data can be sent again."""
    session = begin(tmp_path / "s", THREE, three["east"].classes, three["east"].layout)
    file = key(session.folder, "east")

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr("yoro.parties.messages.write_file", full)
        with pytest.raises(OSError, match="No space"):
            send(session, three["east"], file)
    assert not (session.folder / "east.masked").exists()
    send(session, three["east"], file)
    assert session.message("east").party == "east"
