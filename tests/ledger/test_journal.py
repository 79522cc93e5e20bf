"""The journal: what is appended stays as it was, in order, or verify says where it does not."""

import hashlib
import json
import re
import sqlite3

import pytest
import rfc8785
from hypothesis import given, settings
from hypothesis import strategies as st

from veristate.core import InputError, RefusedError, Rule, TamperError, VeristateError
from veristate.ledger import GENESIS, FindingKind, Ledger


def chain(rows):
    """The digests that the rows should have, computed from their description alone."""
    previous = "0" * 64
    for number, (kind, time, body) in enumerate(rows, start=1):
        covered = {"seq": number, "previous": previous, "kind": kind, "time": time, "body": body}
        previous = hashlib.sha256(rfc8785.dumps(covered)).hexdigest()
        yield previous


def fill(ledger, count=5):
    """Some entries, each with another body."""
    return [ledger.append("note.made", {"number": number, "text": f"entry {number}"}) for number in range(count)]


@pytest.mark.parametrize(
    "body",
    [{"a": 1.5}, {"a": float("nan")}, {"a": 2**60}, {"a": "\ud800"}, {"\ud800": 1}, {"a": b"x"}, [], "text", None],
)
def test_what_canonical_json_cannot_hold_is_refused(ledger, body):
    """Floats, huge integers, lone surrogates, bytes and bodies that are no mapping are InputError; nothing is added."""
    with pytest.raises(InputError):
        ledger.append("note.made", body)
    assert ledger.head() == GENESIS


@pytest.mark.parametrize(
    "kind", ["action.committed", "action.refused", "request.opened", "view.released", "certificate.issued"]
)
def test_nobody_else_writes_what_the_gateway_writes(ledger, kind):
    """An entry of the gateway's kinds can't be appended, so a commitment can't be forged past it."""
    with pytest.raises(RefusedError, match="only the gateway"):
        ledger.append(kind, {"request_id": "r1"})
    assert list(ledger.entries()) == []


@pytest.mark.parametrize("column", ["seq", "previous", "kind", "time", "body", "digest"])
def test_no_column_of_any_row_can_be_changed_unseen(ledger, raw, column):
    """Changing one column of one entry, whichever, is reported at that entry or the next."""
    entries = fill(ledger)
    for entry in entries:
        old = getattr(entry, column)
        new = {"seq": 99, "body": b'{"number":7}', "digest": "f" * 64}.get(column, "changed")
        raw(f"update journal set {column} = ? where seq = ?", new, entry.seq)
        found = ledger.verify()
        assert {finding.seq for finding in found} & {entry.seq, entry.seq + 1, 99}, found
        with pytest.raises(TamperError):
            list(ledger.entries())
        raw(f"update journal set {column} = ? where seq = ?", old, new if column == "seq" else entry.seq)
        assert ledger.verify() == ()


def test_no_byte_of_a_body_can_be_flipped_unseen(ledger, path):
    """Flipping any bit pattern of any byte of any body is reported at exactly that entry."""
    entries = fill(ledger, 3)
    connection = sqlite3.connect(path, isolation_level=None)
    for entry in entries:
        for at in range(len(entry.body)):
            flipped = entry.body[:at] + bytes([entry.body[at] ^ (1 << at % 8)]) + entry.body[at + 1 :]
            connection.execute("update journal set body = ? where seq = ?", (flipped, entry.seq))
            assert [finding.seq for finding in ledger.verify()] == [entry.seq], (at, flipped)
        connection.execute("update journal set body = ? where seq = ?", (entry.body, entry.seq))
    connection.close()
    ledger.require()


def test_no_bit_of_how_a_row_says_its_types_can_be_changed_unheard(ledger, case, path, tmp_path, raw):
    """SQLite keeps a row's types before its values: a text may become NULL, a number or longer. It is no traceback."""
    case.propose(ledger)
    entries = list(ledger.entries())
    ledger.close()
    raw("pragma wal_checkpoint(truncate)")
    data = path.read_bytes()
    starts = {b"0" * 64, case.request.digest.encode()}  # values that come first in a row of each table
    places = {found.start() for start in starts for found in re.finditer(re.escape(start), data)}
    headers = sorted({byte for place in places for byte in range(place - 12, place)})
    changed_path = tmp_path / "changed" / "ledger.sqlite"
    changed_path.parent.mkdir()
    heard = 0
    for at in range(8 * len(headers)):
        changed = bytearray(data)
        changed[headers[at // 8]] ^= 1 << at % 8
        changed_path.write_bytes(changed)
        try:
            with Ledger.open(changed_path) as opened:
                found = opened.verify()
                heard += bool(found)
                assert list(opened.entries()) == entries or found
        except VeristateError:
            heard += 1
        for left in changed_path.parent.iterdir():
            left.unlink()
    assert heard > 4 * len(headers)


@pytest.mark.parametrize(
    "body", [b"", b"[" * 9000, b'{"number":1.0,"text":"entry 1"}', b'{"text":"entry 1", "number":1}']
)
def test_a_body_in_other_bytes_is_reported(ledger, raw, body):
    """The same content written another way, or no JSON at all, is a finding and not a traceback."""
    fill(ledger)
    raw("update journal set body = ? where seq = 2", body)
    assert [(finding.kind, finding.seq) for finding in ledger.verify()] == [(FindingKind.BODY, 2)]


@pytest.mark.parametrize("seq", [1, 2, 3, 4])
def test_a_removed_entry_is_reported(ledger, raw, seq):
    """Removing an entry that is not the last is a gap before the next one."""
    fill(ledger)
    raw("delete from journal where seq = ?", seq)
    assert [(finding.kind, finding.seq) for finding in ledger.verify()] == [(FindingKind.GAP, seq + 1)]


def test_a_removed_and_closed_gap_is_reported(ledger, raw):
    """Renumbering the rows after a removed one does not hide it."""
    fill(ledger)
    raw("delete from journal where seq = 2")
    for seq in (3, 4, 5):
        raw("update journal set seq = ? where seq = ?", seq - 1, seq)
    assert {finding.seq for finding in ledger.verify()} >= {2, 3, 4}


def test_a_removed_end_is_reported(ledger, raw):
    """Removing the last entries is seen at the head, and nothing can be appended to such a journal."""
    fill(ledger)
    raw("delete from journal where seq > 3")
    assert [(finding.kind, finding.seq) for finding in ledger.verify()] == [(FindingKind.HEAD, 3)]
    with pytest.raises(TamperError, match="head"):
        ledger.append("note.made", {})
    with pytest.raises(TamperError, match="1 findings: entry 3, head differs"):
        ledger.require()


def test_exchanged_entries_are_reported(ledger, raw):
    """Two entries that change places are both reported."""
    fill(ledger)
    raw("update journal set seq = 99 where seq = 2")
    raw("update journal set seq = 2 where seq = 3")
    raw("update journal set seq = 3 where seq = 99")
    found = ledger.verify()
    assert {finding.seq for finding in found} >= {2, 3}
    assert {finding.kind for finding in found} == {FindingKind.CHAIN, FindingKind.DIGEST}


def test_an_inserted_entry_is_reported(ledger, raw):
    """A row put at the end past our code is seen at the head, even when its own digest is right."""
    last = fill(ledger)[-1]
    covered = {"seq": 6, "previous": last.digest, "kind": "note.made", "time": "t", "body": {}}
    right = hashlib.sha256(rfc8785.dumps(covered)).hexdigest()
    raw("insert into journal values (6, ?, 'note.made', 't', ?, ?)", last.digest, b"{}", right)
    assert [finding.kind for finding in ledger.verify()] == [FindingKind.HEAD]


def test_a_changed_record_is_reported(ledger, raw):
    """A record whose bytes are changed is a finding, and is not read."""
    name = ledger.record(Rule(kind="top_k", count=2))
    data = raw("select data from records")[0][0]
    raw("update records set data = ?", data.replace(b"2", b"3"))
    assert [finding.kind for finding in ledger.verify()] == [FindingKind.RECORD]
    with pytest.raises(TamperError, match=name):
        ledger.read(name, Rule)


def test_a_missing_table_is_a_finding(ledger, raw):
    """A ledger that can't be read through is reported as such."""
    raw("drop table head")
    found = ledger.verify()
    assert {finding.kind for finding in found} == {FindingKind.UNREADABLE}
    assert "table 'head' is not defined as it was made" in [finding.detail for finding in found]
    with pytest.raises(TamperError):
        ledger.append("note.made", {})


def test_what_the_planner_keeps_is_no_finding(ledger, raw):
    """ANALYZE leaves statistics, which a database browser may ask for."""
    fill(ledger)
    raw("analyze")
    assert ledger.verify() == ()


def test_definitions_are_spelt_as_they_were_when_this_version_of_the_schema_began(ledger, raw):
    """Another spelling, by another release of SQLAlchemy, would call every older ledger altered."""
    rows = raw("select type, name, tbl_name, sql from sqlite_master order by type, name")
    said = "\n".join(" ".join(str(part) for part in row) for row in rows)
    assert hashlib.sha256(" ".join(said.split()).encode()).hexdigest()[:16] == "394e6792b5886b5c"


def test_what_is_defined_otherwise_is_a_finding(ledger, raw):
    """An index that is gone, a table beside ours, and one that no longer refuses a second commitment."""
    raw("drop index ix_views_request_id")
    raw("create table beside (number integer)")
    raw("alter table commitments rename to old")
    raw("create table commitments (seq integer primary key, request_id text not null, digest text not null) strict")
    details = [finding.detail for finding in ledger.verify()]
    assert [detail.split("'")[1] for detail in details if "'sqlite_autoindex" not in detail] == [
        "ix_views_request_id",
        "beside",
        "commitments",
        "old",
    ]


def test_a_record_that_was_never_kept_is_named(ledger):
    """Reading an unknown digest is InputError."""
    with pytest.raises(InputError, match="no record " + "0" * 64):
        ledger.read("0" * 64, Rule)


def test_a_failed_append_keeps_nothing(ledger, raw):
    """An entry and its records are one transaction: when the body is refused, the records are not kept either."""
    with pytest.raises(InputError):
        ledger.append("note.made", {"a": 1.5}, records=[Rule(kind="top_k", count=2)])
    assert raw("select count(*) from records") == [(0,)]
    ledger.append("note.made", {"a": 1}, records=[Rule(kind="top_k", count=2)])
    assert raw("select count(*) from records") == [(1,)]


def test_a_record_is_kept_once(ledger, raw):
    """Recording twice gives the same digest, which is that of the canonical bytes, and one row."""
    rule = Rule(kind="threshold", threshold="0.5")
    assert ledger.record(rule) == ledger.record(rule) == hashlib.sha256(rule.to_bytes()).hexdigest()
    assert raw("select count(*) from records") == [(1,)]
    assert ledger.read(rule.digest, Rule) == rule


text = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
json_values = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53) + 1, 2**53 - 1) | text,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(text, inner, max_size=3),
    max_leaves=6,
)


@settings(max_examples=25, deadline=None)
@given(notes=st.lists(st.tuples(text.filter(bool), st.dictionaries(text, json_values, max_size=3)), max_size=5))
def test_every_journal_is_the_chain_its_description_gives(tmp_path_factory, notes):
    """For any kinds and bodies, the digests are those that the description of the format gives, and all comes back."""
    path = tmp_path_factory.mktemp("law") / "ledger.sqlite"
    with Ledger.open(path, clock=lambda: "2026-01-01T00:00:00Z") as ledger:
        made = [ledger.append(kind, body) for kind, body in notes]
        assert list(ledger.entries()) == made
        assert [entry.digest for entry in made] == list(chain([(k, "2026-01-01T00:00:00Z", b) for k, b in notes]))
        assert [(entry.kind, entry.content) for entry in made] == notes
        assert all(entry.body == rfc8785.dumps(json.loads(entry.body)) for entry in made)
        assert ledger.head() == (made[-1].digest if made else GENESIS)
        assert ledger.verify() == ()


def test_entries_since_a_number_are_the_rest(ledger, monkeypatch):
    """Reading since n gives the entries after n, also over more than one page."""
    monkeypatch.setattr("veristate.ledger.ledger._PAGE", 7)
    entries = fill(ledger, 30)
    for since in (0, 1, 6, 7, 8, 16, 23, 29, 30, 99):
        assert list(ledger.entries(since)) == entries[since:]


def test_an_entry_appended_while_reading_is_not_in_the_way(ledger):
    """Reading holds no lock: an append between two entries succeeds."""
    fill(ledger, 3)
    for number, _ in zip(range(3), ledger.entries(), strict=False):
        ledger.append("note.made", {"during": number})
    assert ledger.verify() == ()


def test_a_golden_entry(ledger):
    """The first entry of a known journal has, for ever, this digest."""
    entry = ledger.append("note.made", {"text": "Grüße", "number": 1})
    assert entry.body == '{"number":1,"text":"Grüße"}'.encode()
    assert entry.digest == next(chain([("note.made", "2026-01-01T00:00:00.000000Z", entry.content)]))
    assert entry.digest == "55895e2263b52aa64c7d0f6aa0f5f7a46b54edbe91d21143e5acd804f2d65235"
