"""Folding keeps what decides within a budget, and gives everything back."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from veristate.core import InputError
from veristate.research import Objective
from veristate.research.memory import PACKET_UPPER, fold, state_packet, unfold
from veristate.research.memory.fold import BUDGET, TAIL_UPPER, summarise
from veristate.store import Store

from .campaigning import card

DOWN = Objective(metric="days", direction="minimise")


def long_campaign():
    """112 cards of about 660 characters, the best one last but ten, and three of a current segment."""
    cards = []
    for stage in range(1, 113):
        note = f"swapped legs {stage} and {stage + 1}; " + "timing refined again " * 25
        if stage == 18:
            cards.append(card(stage, reason="no submission artifact", note=note))
        else:
            cards.append(card(stage, f"{1928.39 - 13.7 * stage if stage <= 102 else 600 + stage:.6f}", note=note))
    return cards + [card(stage, "700", segment=9, note="now " * 40) for stage in (113, 114, 115)]


def test_a_ledger_of_74k_characters_folds_under_5k():
    """The decisive cards stay as they are, the rest is an addressable summary, and all fits the budget."""
    cards = long_campaign()
    whole = "\n".join(each.text() for each in cards)
    assert len(whole) > 70_000
    folded = fold(cards, DOWN, recent=9, keep={"w0/S18"})
    assert len(folded.text) <= BUDGET
    for kept in (1, 18, 102, 115):
        assert cards[kept - 1].text() in folded.text
    assert folded.identifier == "L_w0_S02_S112"
    assert folded.identifier in folded.text
    assert "best" in folded.summary


def test_unfolding_gives_the_original_bytes():
    """All cards of a summary, or the named ones, come back byte for byte."""
    cards = long_campaign()
    folded = fold(cards, DOWN, recent=9)
    back = unfold(cards, folded.identifier)
    assert back == "\n".join(c.text() for c in cards[1:112])
    assert unfold(cards, "L_w0_S01_S112", ["S18", "112"]) == "\n".join(cards[i].text() for i in (17, 111))


@pytest.mark.parametrize("name", ["L_w1_S01_S03", "L_w0_S900_S901", "nonsense", "", "L_w0_S01_S03; rm"])
def test_what_names_nothing_is_refused(name):
    """A summary of a peer, of no stage, or no summary at all gives no cards."""
    with pytest.raises(InputError):
        unfold(long_campaign(), name)


@given(
    st.lists(st.tuples(st.none() | st.integers(-(10**6), 10**6), st.text(max_size=600)), min_size=1, max_size=60),
    st.integers(2600, 6000),
)
def test_any_cards_fold_within_any_budget(drawn, budget):
    """The view never exceeds its budget, and every card is either raw in it or within the summary's range."""
    cards = [
        card(i, None if m is None else str(m), note=note, segment=1 + i // 7) for i, (m, note) in enumerate(drawn, 1)
    ]
    folded = fold(cards, DOWN, recent=cards[-1].segment, budget=budget)
    assert len(folded.text) <= budget
    for each in cards:
        assert each.text() in folded.text or each.text() in unfold(cards, folded.identifier)


def test_an_abandoned_tail_is_short():
    """Refusals are told by reason and number, improvements by state."""
    cards = long_campaign()
    text = summarise(cards[22:27], DOWN, identifier="L_w0_S23_S27", upper=TAIL_UPPER)
    assert len(text) <= TAIL_UPPER
    assert "L_w0_S23_S27" in text


def test_a_packet_lists_what_is_on_the_disk(tmp_path):
    """Files come from the snapshot, whatever notes say was done; and a packet has an end."""
    folder = tmp_path / "workspace"
    (folder / "models").mkdir(parents=True)
    (folder / "models/a.bin").write_bytes(b"12345")
    (folder / "link").symlink_to("models")
    store = Store.open(tmp_path / "objects")
    tree = store.snapshot(folder)
    memory = "## w0/S07 valid\nnote: wrote models/b.bin\n" * 900
    packet = state_packet(store, tree, None, restart="w0/S03", memory=memory, peers="p" * 1400, tail="t" * 1200)
    listed = packet[: packet.index("Left behind")]
    assert "models/a.bin (5 bytes)" in listed
    assert "link (link)" in listed
    assert "b.bin" not in listed
    assert len(packet) == PACKET_UPPER
