"""Witnesses: the standard's answers, no two inconsistent heads under any race, and forks that prove themselves."""

import http.client
import multiprocessing
import threading
from http import HTTPStatus

import pytest
from attest_cases import NOW, ORIGIN, fixed_key, note_key

from veristate.attest import (
    UNWITNESSED,
    Checkpoint,
    Fork,
    Head,
    NoteKind,
    Quorum,
    TileLog,
    Witness,
    http_ask,
    serve,
    witness_head,
)
from veristate.attest.log import EMPTY_ROOT, LogReader, fetch_from
from veristate.attest.signing import Note, parse_signatures, sign_note
from veristate.attest.witness import AddCheckpoint, Answer
from veristate.core import InputError, RefusedError, TamperError

KEY = note_key(ORIGIN, 1)
BOTH_KEYS = [KEY, note_key(ORIGIN, 8)]


def witness_key(number):
    """The verifier key of the witness of that number."""
    return note_key(f"w{number}.example.org", number, NoteKind.WITNESS)


def new_witness(folder, number=2, logs=(KEY,)):
    """That witness, as a new process would open it."""
    return Witness(
        folder / f"w{number}", name=f"w{number}.example.org", key=fixed_key(number), logs=logs, clock=lambda: NOW
    )


@pytest.fixture
def witness(tmp_path):
    """A witness that knows the log."""
    return new_witness(tmp_path)


@pytest.fixture
def grown(tmp_path):
    """Makes a log of these entries in a folder of its own, and gives it with its head."""

    def make(name, entries):
        log = TileLog.open(tmp_path / name, origin=ORIGIN, key=fixed_key(1), quorum=UNWITNESSED)
        log.append(entries)
        return log, log.published()

    return make


def entries(count, mark=b"entry"):
    """So many entries of one kind."""
    return [b"%b %d" % (mark, n) for n in range(count)]


def ask(witness, old, proof, checkpoint):
    """The witness's answer."""
    return witness.add_checkpoint(AddCheckpoint(old=old, proof=tuple(proof), checkpoint=checkpoint).to_bytes())


def forged(size, root=b"x" * 32, origin=ORIGIN, key=1):
    """A head of that size and root, well signed."""
    head = Head(origin=origin, size=size, root=root)
    signature = sign_note(str(head), note_key(origin, key), fixed_key(key))
    return Checkpoint(head=head, note=Note(text=str(head), signatures=(signature,)))


def test_the_first_head_and_every_one_that_continues_is_cosigned(witness, grown):
    """200, with a cosignature of the witness on the very text."""
    log, first = grown("a", entries(5))
    answer = ask(witness, 0, [], first)
    assert answer.status is HTTPStatus.OK
    (line,) = parse_signatures(answer.body)
    assert first.note.with_signatures([line]).signed_by([witness.key]) == {witness.key: NOW}
    log.append(entries(20))
    second = log.published()
    assert ask(witness, 5, log.reader(second).consistency(5), second).status is HTTPStatus.OK
    assert ask(witness, 20, [], second).status is HTTPStatus.OK
    assert witness.last(ORIGIN).head == second.head


def test_an_unknown_origin_is_not_found(witness):
    """404."""
    assert ask(witness, 0, [], forged(3, origin="other.example/log")).status is HTTPStatus.NOT_FOUND


def test_a_head_that_no_trusted_key_signed_is_forbidden(witness, grown):
    """403: another key, no line, a broken line of the right key."""
    _, good = grown("a", entries(5))
    for note in (
        forged(5, key=9).note,
        Note(text=good.note.text, signatures=forged(6).note.signatures),
    ):
        assert ask(witness, 0, [], Checkpoint(head=Head.parse(note.text), note=note)).status is HTTPStatus.FORBIDDEN
    assert witness.last(ORIGIN) is None


def test_unknown_lines_beside_the_logs_are_ignored(witness, grown):
    """Other witnesses' cosignatures may already be there."""
    _, first = grown("a", entries(5))
    other = forged(5, origin="somebody.else", key=9).note.signatures[0]
    note = Note(text=first.note.text, signatures=(other, *first.note.signatures))
    assert ask(witness, 0, [], Checkpoint(head=first.head, note=note)).status is HTTPStatus.OK


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"old 0\n",
        b"old 00\n\n%b",
        b"old -1\n\n%b",
        b"old \xd9\xa3\n\n%b",
        b"new 0\n\n%b",
        b"old 0\nAAAA\n\n%b",
        b"old 0\n" + (b"A" * 43 + b"=\n") * 64 + b"\n%b",
        b"old 9\n\n%b",
        b"old 0\n\nno checkpoint\n",
    ],
)
def test_what_is_no_request_is_a_bad_one(witness, grown, body):
    """400: also an old size beyond the checkpoint's, and 64 proof lines."""
    _, first = grown("a", entries(5))
    data = body.replace(b"%b", str(first).encode())
    assert witness.add_checkpoint(data).status is HTTPStatus.BAD_REQUEST


def test_a_stale_old_size_is_a_conflict_that_names_the_right_one(witness, grown):
    """409, the size as the body, in its own media type."""
    log, first = grown("a", entries(5))
    ask(witness, 0, [], first)
    log.append(entries(9))
    answer = ask(witness, 0, [], log.published())
    assert (answer.status, answer.body, answer.kind) == (HTTPStatus.CONFLICT, "5\n", "text/x.tlog.size")
    assert ask(witness, 4, log.reader(log.published()).consistency(4), log.published()).status is HTTPStatus.CONFLICT
    assert witness.last(ORIGIN).head.size == 5


def test_the_same_size_with_another_root_is_a_conflict_and_a_fork(witness, grown):
    """409, nothing cosigned, and evidence that convinces a stranger."""
    _, first = grown("a", entries(5))
    _, other = grown("b", entries(5, b"other"))
    ask(witness, 0, [], first)
    answer = ask(witness, 5, [], other)
    assert (answer.status, answer.body, answer.kind) == (HTTPStatus.CONFLICT, "5\n", "text/x.tlog.size")
    (fork,) = witness.forks()
    assert "size 5" in Fork.from_bytes(fork.to_bytes()).prove(ORIGIN, [KEY])
    assert {fork.one.head.root, fork.other.head.root} == {first.head.root, other.head.root}


def test_a_proof_that_does_not_verify_is_unprocessable(witness, grown):
    """422: empty, of other sizes, changed, or longer than it should be."""
    log, first = grown("a", entries(5))
    ask(witness, 0, [], first)
    log.append(entries(20))
    second = log.published()
    proof = log.reader(second).consistency(5)
    for wrong in ((), proof[:-1], (*proof, proof[0]), (b"x" * 32, *proof[1:]), log.reader(second).consistency(6)):
        assert ask(witness, 5, wrong, second).status is HTTPStatus.UNPROCESSABLE_ENTITY
    assert witness.last(ORIGIN).head == first.head


def test_from_nothing_the_proof_is_empty(witness, grown):
    """422 for any proof from size 0; and the empty proof from 0 is no way around a head that was cosigned."""
    _, first = grown("a", entries(5))
    assert ask(witness, 0, [b"x" * 32], first).status is HTTPStatus.UNPROCESSABLE_ENTITY
    assert ask(witness, 0, [], first).status is HTTPStatus.OK
    assert ask(witness, 0, [], forged(9)).status is HTTPStatus.CONFLICT


def test_an_empty_log_has_one_root(witness):
    """422 for a head of size 0 with any other."""
    assert ask(witness, 0, [], forged(0)).status is HTTPStatus.UNPROCESSABLE_ENTITY
    assert ask(witness, 0, [], forged(0, root=EMPTY_ROOT)).status is HTTPStatus.OK
    assert ask(witness, 0, [], forged(3)).status is HTTPStatus.OK


@pytest.mark.parametrize("size", [5, 6, 7, 11])
def test_a_fork_at_another_size_is_proven_by_the_proof_itself(witness, grown, size):
    """The other branch's own consistency proof shows which root it had when it was of our size."""
    _, first = grown("a", entries(size))
    log, other = grown("b", entries(20, b"other"))
    ask(witness, 0, [], first)
    assert ask(witness, size, log.reader(other).consistency(size), other).status is HTTPStatus.UNPROCESSABLE_ENTITY
    (fork,) = witness.forks()
    assert f"size {size}" in fork.prove(ORIGIN, [KEY])


@pytest.mark.parametrize("size", [1, 4, 8, 5])
def test_a_fork_is_proven_from_the_other_branchs_tiles(tmp_path, grown, size):
    """Also from a size that is a power of two, where the proof leaves its first root out."""
    _, first = grown("a", entries(size))
    _, other = grown("b", entries(20, b"other"))
    fork = Fork.from_reader(first, other, LogReader(fetch_from(tmp_path / "b"), other.head))
    assert "for the same size" in Fork.from_bytes(fork.to_bytes()).prove(ORIGIN, [KEY])
    _, longer = grown("c", entries(20))
    assert Fork.from_reader(first, longer, LogReader(fetch_from(tmp_path / "c"), longer.head)) is None


def test_honest_heads_are_no_fork(grown):
    """Nor are heads that somebody else signed."""
    log, first = grown("a", entries(5))
    log.append(entries(20))
    second = log.published()
    proof = log.reader(second).consistency(5)
    assert Fork.between(first, second, proof) is None
    assert Fork.between(first, first, ()) is None
    assert Fork.between(first, forged(9), (b"x" * 32,)) is None
    innocent = Fork(one=first, other=second, root=first.head.root, proof=proof)
    with pytest.raises(TamperError, match="honest"):
        innocent.prove(ORIGIN, [KEY])
    framed = Fork.between(first, forged(5, key=9), ())
    with pytest.raises(TamperError, match="no key of"):
        framed.prove(ORIGIN, [KEY])


@pytest.mark.parametrize(
    "data", [b"", b"{}", b'{"format":"veristate.fork/1"}', b'{"format":"x","one":"","other":"","proof":[],"root":""}']
)
def test_what_is_no_evidence_is_refused(data):
    """Missing fields, other formats."""
    with pytest.raises(InputError, match="fork"):
        Fork.from_bytes(data)


def _race(folder, name, start, told):
    witness = new_witness(folder)
    log = TileLog.open(folder / name, origin=ORIGIN, key=fixed_key(1), quorum=UNWITNESSED)
    checkpoint = log.published()
    proof = log.reader(checkpoint).consistency(4)
    start.wait()
    answer = witness.add_checkpoint(AddCheckpoint(old=4, proof=proof, checkpoint=checkpoint).to_bytes())
    told.put((name, int(answer.status), checkpoint.head.size))


def test_of_two_branches_in_a_race_one_is_cosigned(tmp_path, grown):
    """Processes that ask at once with heads that both continue the known one: exactly one is answered with a line."""
    shared = entries(4)
    _, known = grown("known", shared)
    assert ask(new_witness(tmp_path), 0, [], known).status is HTTPStatus.OK
    names = [f"branch{n}" for n in range(6)]
    for n, name in enumerate(names):
        grown(name, shared + entries(3 + n, b"b%d" % n))
    context = multiprocessing.get_context("fork")
    start, told = context.Event(), context.Queue()
    processes = [context.Process(target=_race, args=(tmp_path, name, start, told)) for name in names]
    for process in processes:
        process.start()
    start.set()
    answers = [told.get(timeout=60) for _ in processes]
    for process in processes:
        process.join()
    assert sorted(status for _, status, _ in answers) == [200, 409, 409, 409, 409, 409]
    (size,) = [size for _, status, size in answers if status == 200]
    assert new_witness(tmp_path).last(ORIGIN).head.size == size


def test_a_rotated_log_key_is_one_more_key(tmp_path):
    """By origin and key id together."""
    witness = new_witness(tmp_path, logs=BOTH_KEYS)
    assert ask(witness, 0, [], forged(3, key=8)).status is HTTPStatus.OK


def test_a_kill_at_every_step_of_a_cosignature(tmp_path, killed_at, grown, unsynced):
    """A witness that died either remembers the head or never signed it: it can't be made to sign a branch."""
    log, first = grown("a", entries(5))
    log.append(entries(9))
    second = log.published()
    _, branch = grown("b", entries(9, b"other"))
    proof, other = log.reader(second).consistency(5), b"x" * 32
    step = 0
    while True:
        step += 1
        folder = tmp_path / f"kill{step}"
        ask(new_witness(folder), 0, [], first)
        told = folder / "told"

        def run(folder=folder, told=told):
            answer = ask(new_witness(folder), 5, proof, second)
            told.write_text(str(int(answer.status)))

        killed = killed_at(step, run)
        last = new_witness(folder).last(ORIGIN).head
        assert last in (first.head, second.head)
        if told.exists() and told.read_text() == "200":
            assert last == second.head
        assert ask(new_witness(folder), last.size, [other], branch).status in (409, 422)
        if not killed:
            break
    assert step > 5


@pytest.fixture
def served(tmp_path):
    """A witness behind HTTP, and how to ask it."""
    witness = new_witness(tmp_path)
    server = serve(witness, host="127.0.0.1", port=0)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield witness, server.server_port
    server.shutdown()
    server.server_close()
    thread.join()


def test_over_http_the_answers_are_the_same_and_the_connection_stays(served, grown):
    """Keep-alive, statuses, media type, and paths that are not there."""
    _, port = served
    log, first = grown("a", entries(5))
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=10)
    body = AddCheckpoint(old=0, proof=(), checkpoint=first).to_bytes()
    connection.request("POST", "/add-checkpoint", body=body)
    reply = connection.getresponse()
    assert reply.status == 200
    assert parse_signatures(reply.read().decode())
    log.append(entries(9))
    stale = AddCheckpoint(old=0, proof=(), checkpoint=log.published()).to_bytes()
    connection.request("POST", "/add-checkpoint", body=stale)
    reply = connection.getresponse()
    assert (reply.status, reply.getheader("Content-Type"), reply.read()) == (409, "text/x.tlog.size", b"5\n")
    connection.request("POST", "/other", body=body)
    reply = connection.getresponse()
    assert (reply.status, bool(reply.read())) == (404, True)
    connection.request("POST", "/add-checkpoint", body=b"", headers={"Content-Length": "99999999"})
    assert connection.getresponse().status == 400
    connection.close()


def test_a_log_with_a_quorum_publishes_what_its_witnesses_cosigned(served, tmp_path):
    """From the first head to a grown one, and again without change."""
    witness, port = served
    quorum = Quorum(members=(witness.key,), threshold=1)
    log = TileLog.open(tmp_path / "log", origin=ORIGIN, key=fixed_key(1), quorum=quorum, clock=lambda: NOW)
    asked = [(witness.key, http_ask(f"http://127.0.0.1:{port}"))]
    for count in (5, 9, 9, 300):
        log.append(entries(count))
        result = witness_head(log, asked)
        assert result.require().head.size == count
        assert result.times == {witness.key.name: NOW}
    assert log.prove(299).checkpoint.note.signed_by([witness.key])


def test_without_enough_witnesses_the_head_is_not_published(tmp_path, open_log):
    """One is down, one answers nonsense, one signs something else: each is named, none counts."""
    good = new_witness(tmp_path)
    keys = [witness_key(n) for n in (2, 3, 4, 5)]
    log = open_log(quorum=Quorum(members=tuple(keys), threshold=2))
    log.append(entries(5))

    def down(body):
        raise ConnectionRefusedError("refused")

    def nonsense(body):
        return Answer(status=HTTPStatus.OK, body="hello\n")

    def another(body):
        text = str(Head(origin=ORIGIN, size=9, root=b"x" * 32))
        from veristate.attest.signing import cosign_note

        return Answer(status=HTTPStatus.OK, body=str(cosign_note(text, keys[3], fixed_key(5), NOW)))

    result = witness_head(log, list(zip(keys, [good.add_checkpoint, down, nonsense, another], strict=True)))
    assert result.checkpoint is None
    assert result.times == {"w2.example.org": NOW}
    assert set(result.refused) == {"w3.example.org", "w4.example.org", "w5.example.org"}
    with pytest.raises(RefusedError, match="no quorum"):
        result.require()
    with pytest.raises(InputError):
        log.published()


def test_a_witness_that_saw_more_of_the_log_than_there_is_refuses(tmp_path, open_log, grown):
    """A log that was set back can't be cosigned again."""
    witness = new_witness(tmp_path)
    _, longer = grown("a", entries(9))
    ask(witness, 0, [], longer)
    log = open_log(quorum=Quorum(members=(witness.key,), threshold=1))
    log.append(entries(5))
    result = witness_head(log, [(witness.key, witness.add_checkpoint)])
    assert "9 entries" in result.refused[witness.key.name]


@pytest.mark.parametrize("address", ["", "w.example.org", "ftp://w.example.org", "http://"])
def test_a_witness_without_an_address_is_refused(address):
    """Before anything is asked."""
    with pytest.raises(InputError, match="witness is asked at"):
        http_ask(address)
