"""The audit's tasks: the facts their papers state, their decisions against plain code, and data that is not there.

Those that read files of the data folder are skipped where VERISTATE_DATA names none. Nothing is taken from the user's
cache: every task is prepared anew, once.
"""

import functools
import gzip
import json
import math
import subprocess
import sys
from collections import Counter
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from rdkit import Chem, DataStructs, RDConfig
from rdkit.Chem import rdFingerprintGenerator

from veristate.audit.tasks import FILES, NAMES, VARIABLE, Data, load_task
from veristate.audit.tasks.scifact import load as load_scifact
from veristate.audit.tasks.scifact_text import read_scifact
from veristate.audit.tasks.superconductors import fractions
from veristate.core import EnvironmentUnusableError, InputError

# Rows (and columns, or what else counts), split, sites, lists, labels. From the papers and the data's own notes.
FACTS = {
    "scifact": ((5183, 300), (), ("scores",), (300, 10), None),
    "nci": ((4999, 4991, 1536), (), ("common_bits", "scores"), (1536, 10), None),
    "activity": ((1017,), (719, 140, 158), ("layer_0", "layer_1", "layer_2"), (1, 20), None),
    "wdbc": ((569, 30), (401, 83, 85), ("layer_0", "layer_1", "layer_2"), None, 569),
    "digits": ((1797, 64), (1271, 247, 279), ("features",), None, 1797),
    "splice": ((3190, 60), (2232, 496, 462), ("layer_0", "layer_1", "layer_2"), None, 3190),
    "pbmc": ((700, 765), (), ("scores",), (700, 10), 700),
    "esol": ((1128,), (128, 700, 300), ("predictions",), (24, 20), None),
    "gb1": ((149361,), (2691, 299, 5743), ("layer_0", "layer_1", "layer_2"), (1, 96), None),
    "superconductors": ((16414, 12337), (8487, 1912, 1938), ("layer_0", "layer_1", "layer_2"), (1, 50), None),
}
QUICK = ("wdbc", "digits", "splice", "pbmc", "esol")
NOWHERE = Data(folder=None)


def in_folder(name):
    """Whether a task reads files that no package ships."""
    return any(file.packaged is None for file in FILES[name])


def data_for(name):
    """Where that task's data is; the test is skipped without a folder that it needs."""
    found = Data.from_environment()
    if found.folder is None and in_folder(name):
        pytest.skip(f"{VARIABLE} names no folder, and no package ships the data of {name}")
    return found


@pytest.fixture(scope="module")
def tasks(tmp_path_factory):
    """A function that gives the task of a name, prepared once, in a cache of its own."""
    held = {}
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.mktemp("cache")))

        def task(name):
            if name not in held:
                held[name] = load_task(name, data_for(name))
            return held[name]

        yield task


@pytest.fixture(scope="module")
def outcomes(tasks):
    """A function that gives the outcome of the task of a name, run once."""
    return functools.cache(lambda name: tasks(name).run())


@pytest.mark.parametrize("name", FACTS)
def test_facts(tasks, outcomes, name):
    """Each task has the rows, the split, the sites and the shape of endpoints that are stated for it."""
    size, split, sites, lists, labels = FACTS[name]
    task = tasks(name)
    about, outcome = task.describe(), outcomes(name)
    assert (about.name, about.size, about.split, task.sites()) == (name, size, split, sites)
    assert (None if outcome.lists is None else outcome.lists.shape) == lists
    assert (None if outcome.labels is None else len(outcome.labels)) == labels
    assert all(math.isfinite(value) for _, value in outcome.metrics)
    assert all((about.data, about.computation, about.endpoint, about.aggregate, about.differs))


def test_every_task_has_its_facts():
    """No task goes without stated facts; hERG's stand in a test of their own."""
    assert {*FACTS, "herg"} == set(NAMES)


@pytest.mark.parametrize("name", FACTS)
def test_sites_are_where_values_can_be_changed(tasks, outcomes, name):
    """Each site is passed in order; what is given back there decides; nothing given back unchanged changes anything."""
    task, seen = tasks(name), []
    before, reference = task.digest(), outcomes(name)

    def look(site, Y):
        assert Y.dtype == np.float32
        seen.append(site)
        return Y

    assert same(task.run(look), reference)
    assert tuple(dict.fromkeys(seen)) == task.sites()
    assert set(task.products()) <= set(task.sites())
    for wanted in task.sites():
        outcome = task.run(lambda site, Y, wanted=wanted: -Y if site == wanted else Y)
        assert not same(outcome, reference)
    assert task.digest() == before


def same(a, b):
    """Whether two outcomes are equal."""
    return np.array_equal(a.lists, b.lists) and np.array_equal(a.labels, b.labels) and a.metrics == b.metrics


@pytest.mark.parametrize("name", QUICK)
def test_prepared_again_is_the_same(tasks, name, tmp_path, monkeypatch):
    """A task that is prepared in another, empty cache has the same digest, and so has one read back from it."""
    first = tasks(name).digest()
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert [load_task(name, data_for(name)).digest() for _ in range(2)] == [first, first]


@pytest.mark.soak
@pytest.mark.parametrize("name", ["scifact", "nci", "activity", "gb1", "superconductors", "herg"])
def test_the_long_ones_prepared_again_are_the_same(tasks, name, tmp_path, monkeypatch):
    """As for the quick ones."""
    first = tasks(name).digest()
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert load_task(name, data_for(name)).digest() == first


@pytest.mark.parametrize("name", ["activity", "gb1", "superconductors"])
def test_networks_have_learned_something(outcomes, name):
    """Predictions of test rows rank as the measurements do, far better than by chance."""
    assert outcomes(name).metric("Spearman") > 0.7


@pytest.mark.parametrize(("name", "floor"), [("wdbc", 0.9), ("digits", 0.95), ("splice", 0.9)])
def test_classifiers_have_learned_something(outcomes, name, floor):
    """Most test rows are classified as they are labelled."""
    assert outcomes(name).metric("accuracy") > floor


def test_scifact_metrics(outcomes):
    """Words of two letters and more give 0.532 and 0.469, within a hundredth of the paper's 0.525 and 0.4636."""
    outcome = outcomes("scifact")
    recall, gain = outcome.metric("Recall@5"), outcome.metric("nDCG@10")
    assert (round(recall, 3), round(gain, 3)) == (0.532, 0.469)
    assert abs(recall - 0.525) < 0.01
    assert abs(gain - 0.4636) < 0.01
    assert metrics_by_hand(outcome.lists) == pytest.approx((recall, gain), abs=1e-12)


@pytest.mark.soak
def test_scifact_metrics_with_all_words(tasks, tmp_path, monkeypatch):
    """All words, one letter and more, give 0.519 and 0.452."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    outcome = load_scifact(data_for("scifact"), "all").run()
    assert (round(outcome.metric("Recall@5"), 3), round(outcome.metric("nDCG@10"), 3)) == (0.519, 0.452)


def metrics_by_hand(lists):
    """Recall@5 and nDCG@10 from identifiers, one query at a time."""
    text = read_scifact(data_for("scifact"))
    recalls, gains = [], []
    for row, claim in zip(lists, text.claims, strict=True):
        names = [text.abstracts[place].id for place in row]
        recalls.append(sum(name in claim.relevant for name in names[:5]) / len(claim.relevant))
        gain = sum(1 / math.log2(rank + 2) for rank, name in enumerate(names) if name in claim.relevant)
        gains.append(gain / sum(1 / math.log2(rank + 2) for rank in range(min(10, len(claim.relevant)))))
    return sum(recalls) / len(recalls), sum(gains) / len(gains)


def test_scifact_holds_the_text_that_agents_read(tasks):
    """Abstracts are in text order of their ids; evidence names sentences that exist; claim 684 cites 4942718."""
    text = read_scifact(data_for("scifact"))
    ids = [abstract.id for abstract in text.abstracts]
    assert ids == sorted(ids)
    held = {abstract.id: abstract for abstract in text.abstracts}
    for claim in text.claims:
        for part in claim.evidence:
            assert part.label in {"SUPPORT", "CONTRADICT"}
            assert max(part.sentences) < len(held[part.document].sentences)
    claims = {claim.id: claim for claim in text.claims}
    assert {"350", "431", "507", "684", "729", "831", "1180"} <= claims.keys()
    assert "4942718" in claims["684"].relevant
    norms = np.linalg.norm(tasks("scifact").layers[0].W.astype(np.float64), axis=1)
    assert np.abs(norms - 1).max() < 1e-6


def test_beir_s_layout_is_read_too(tmp_path):
    """The corpus and judgements as BEIR publishes them give the same texts, claims and relevant documents."""
    text = read_scifact(data_for("scifact"))
    (tmp_path / "scifact" / "qrels").mkdir(parents=True)
    entries = [{"_id": a.id, "title": a.title, "text": " ".join(a.sentences), "metadata": {}} for a in text.abstracts]
    lines = "".join(json.dumps(entry) + "\n" for entry in reversed(entries))
    (tmp_path / "scifact" / "corpus.jsonl").write_text(lines)
    _, claims, judgements = FILES["scifact"]
    (tmp_path / claims.name).write_bytes(data_for("scifact").read(claims, "scifact"))
    (tmp_path / judgements.also[0]).write_bytes(data_for("scifact").read(judgements, "scifact"))
    found = read_scifact(Data(folder=tmp_path))
    assert found.claims == text.claims
    assert [(a.id, a.text) for a in found.abstracts] == [(a.id, a.text) for a in text.abstracts]


def test_nci_agrees_with_rdkit(tasks, outcomes):
    """Similarities are RDKit's own, and lists are its ten nearest with ties by identifier, the query left out."""
    task = tasks("nci")
    scores, lists = task.scores(), outcomes("nci").lists
    path = Path(RDConfig.RDDataDir) / "NCI" / "first_5K.smi"
    smiles = {number: text for text, number in (line.split() for line in path.read_text().splitlines())}
    generator = rdFingerprintGenerator.GetMorganGenerator(radius=2, fpSize=2048)
    prints = [generator.GetFingerprint(Chem.MolFromSmiles(smiles[name])) for name in task.ids]
    assert list(task.ids) == sorted(task.ids)
    for row in (0, 7, 700, 1535):
        query = task.queries[row]
        expected = np.array(DataStructs.BulkTanimotoSimilarity(prints[query], prints))
        assert np.allclose(scores[row], expected, atol=1e-6)
        ranked = sorted((place for place in range(len(prints)) if place != query), key=lambda p: (-scores[row, p], p))
        assert lists[row].tolist() == ranked[:10]


def test_pbmc_votes(tasks, outcomes):
    """A cell's ten nearest and the vote of the first five are what plain counting gives."""
    task = tasks("pbmc")
    outcome, X = outcomes("pbmc"), task.X
    for cell in range(0, 700, 70):
        similar = task.scores()[cell]
        ranked = sorted((other for other in range(len(X)) if other != cell), key=lambda other: (-similar[other], other))
        assert outcome.lists[cell].tolist() == ranked[:10]
        votes = Counter(int(task.judge.labels[other]) for other in ranked[:5])
        assert outcome.labels[cell] == min(votes, key=lambda label: (-votes[label], label))


def test_esol_measures_the_pool_alone(tasks, outcomes):
    """Each seed measures twenty compounds of the pool, none twice; seeds differ."""
    lists = outcomes("esol").lists
    pool = set(tasks("esol").split.validation.tolist())
    assert all(len(set(row)) == 20 and set(row) <= pool for row in lists.tolist())
    assert len({tuple(row) for row in lists.tolist()}) > 1


def test_digits_keep_their_head_healthy(tasks):
    """The head is no site: what follows the features stays as it was learned."""
    task = tasks("digits")
    assert [layer.healthy for layer in task.layers] == [False, True]
    moved = replace(task, layers=(task.layers[0], replace(task.layers[1], W=-task.layers[1].W)))
    assert moved.digest() != task.digest()


@pytest.mark.soak
def test_herg(tasks):
    """12,620 labelled compounds, a cohort of 2,009, 402 selected; probabilities are the ensemble's own."""
    task = tasks("herg")
    about, outcome, scores = task.describe(), task.run(), task.scores()
    assert about.size == (12620, 2009)
    assert outcome.lists.shape == (1, 402)
    assert len(task.sites()) == 10
    assert outcome.metric("blockers selected") == task.labels[outcome.lists[0]].sum()
    assert 0.7 < outcome.metric("AUROC") < 0.8
    assert ((scores >= 0) & (scores <= 1)).all()
    for wanted in task.sites():
        assert not same(task.run(lambda site, Y, wanted=wanted: -Y if site == wanted else Y), outcome)


def test_formulas_become_fractions():
    """Amounts are parts of the whole; elements stand in text order; repeated elements add up."""
    assert np.allclose(fractions(["Mg1B2", "B1Mg0.5B0.5"]), [[2 / 3, 1 / 3], [0.75, 0.25]])


@pytest.mark.parametrize("name", [name for name in NAMES if in_folder(name)])
def test_absent_data_is_said(name, tmp_path):
    """The file that lacks, why it was not found and who has it are named: with no folder, and with an empty one."""
    first = next(file for file in FILES[name] if file.packaged is None)
    for data, why in ((NOWHERE, "names no folder"), (Data(folder=tmp_path), f"not in {tmp_path}")):
        with pytest.raises(EnvironmentUnusableError) as raised:
            load_task(name, data)
        message = str(raised.value)
        assert message.startswith(f"the task {name} lacks ")
        assert VARIABLE in message
        assert why in message
        assert any(file.name in message and file.obtain in message for file in FILES[name])
    assert first.obtain


@pytest.mark.parametrize("name", ["nci", "activity", "wdbc", "digits"])
def test_packaged_data_needs_no_folder(name):
    """Tasks whose data installed packages ship find it there, as it was when the tests were written."""
    for file in FILES[name]:
        found = NOWHERE.find(file)
        assert found is not None
        assert "versi" not in found.place
        assert found.rows(file) == FACTS[name][0][0]


def test_a_folder_that_is_none_is_said(tmp_path):
    """A VERISTATE_DATA that is no folder is an error that names it; an unset one is no folder."""
    with pytest.raises(EnvironmentUnusableError, match=r"absent: there is no such folder"):
        Data.from_environment({VARIABLE: str(tmp_path / "absent")})
    assert Data.from_environment({}) == NOWHERE


def test_an_unknown_task_is_refused():
    """The names are listed."""
    with pytest.raises(InputError, match="known are scifact, nci"):
        load_task("astrology", NOWHERE)


def test_links_out_of_the_folder_are_not_followed(tmp_path):
    """A link to a file elsewhere counts as absent, one to a file of the folder does not."""
    (file,) = FILES["splice"]
    inside, outside = tmp_path / "inside" / "bio", tmp_path / "elsewhere.csv"
    inside.mkdir(parents=True)
    outside.write_text("class,id,sequence\n")
    (tmp_path / "inside" / file.name).symlink_to(outside)
    data = Data(folder=tmp_path / "inside")
    assert data.find(file) is None
    (inside / "splice.data").write_text("class,id,sequence\n")
    assert data.find(file).path.name == "splice.data"


def test_a_broken_file_is_refused(tmp_path):
    """A gzip file that ends too early, and a table that is not the whole one, are errors that say so."""
    (file,) = FILES["splice"]
    path = tmp_path / f"{file.name}.gz"
    path.parent.mkdir()
    path.write_bytes(gzip.compress(b"class,id,sequence\n" * 99)[:-9])
    with pytest.raises(InputError, match=r"uci_splice.csv.gz is no whole gzip file"):
        load_task("splice", Data(folder=tmp_path))
    path.write_bytes(gzip.compress(b"class,id,sequence\nEI,a," + b"ACGT" * 15 + b"\n"))
    with pytest.raises(InputError, match=r"1 rows can't be split into \(2232, 496, 462\)"):
        load_task("splice", Data(folder=tmp_path))


def test_tables_and_arrays_that_lack_something_are_refused(tmp_path):
    """A table without a column, and an npz without an array, are errors that name it."""
    for file, content in ((FILES["esol"][0], b"name,logS\n"), (FILES["gb1"][0], b"PK")):
        (tmp_path / file.name).parent.mkdir(exist_ok=True)
        (tmp_path / file.name).write_bytes(content)
    with pytest.raises(InputError, match=r"esol_delaney_processed.csv, of the task esol, has no column 'Compound ID'"):
        load_task("esol", Data(folder=tmp_path))
    with pytest.raises(InputError, match=r"gb1_four_mutations.npz is no npz with the arrays variant, alphabet"):
        load_task("gb1", Data(folder=tmp_path))


def test_the_publisher_s_file_is_accepted(tasks, tmp_path):
    """UCI's own splice.data, with blanks and without a header, gives the same task."""
    (file,) = FILES["splice"]
    lines = data_for("splice").read(file, "splice").decode().splitlines()[1:]
    (tmp_path / "bio").mkdir()
    rows = [line.split(",") for line in lines]
    text = "".join(f"{kind},{name:>20},{sequence:>75}\n" for kind, name, sequence in rows)
    (tmp_path / "bio" / "splice.data").write_text(text)
    data = Data(folder=tmp_path)
    assert data.find(file).rows(file) == 3190
    assert load_task("splice", data).digest() == tasks("splice").digest()


def test_nothing_outside_the_folder_is_read(tmp_path):
    """No file with data's name is opened but in the folder, in the packages and in the cache."""
    data = data_for("splice")
    script = (
        "import sys\nopened = set()\n"
        "sys.addaudithook(lambda event, args: opened.add(str(args[0])) if event == 'open' else None)\n"
        "from veristate.audit.tasks import Data, load_task\n"
        "for name in ('splice', 'pbmc', 'wdbc'): load_task(name, Data.from_environment())\n"
        "kinds = ('.csv', '.gz', '.npz', '.data', '.tsv', '.jsonl', '.smi', '.pt')\n"
        "print('\\n'.join(sorted(name for name in opened if name.endswith(kinds))))"
    )
    environment = {VARIABLE: str(data.folder), "XDG_CACHE_HOME": str(tmp_path), "OMP_NUM_THREADS": "1"}
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True, env=environment)
    opened = [Path(line) for line in done.stdout.splitlines()]
    assert len(opened) >= 3
    places = (data.folder, tmp_path, Path(np.__file__).parents[1])
    assert all(any(path.is_relative_to(place) for place in places) for path in opened)
