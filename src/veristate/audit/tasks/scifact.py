"""SciFact retrieval: 300 claims against 5,183 abstracts in a latent semantic space of 512 dimensions."""

from dataclasses import dataclass
from importlib.metadata import version
from typing import Literal

import numpy as np
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.preprocessing import normalize
from sklearn.utils.extmath import randomized_svd

from veristate.audit.tasks.cache import Arrays, prepared
from veristate.audit.tasks.judges import best_columns
from veristate.audit.tasks.scifact_text import SciFactText, read_scifact
from veristate.audit.tasks.sources import Data
from veristate.audit.tasks.task import Array, Description, LayeredTask, Product, TaskOutcome
from veristate.core import digest

# The sketch has ten columns more than the rank, scikit-learn's habit. Were the paper's 522 the width of the sketch, as
# in torch.svd_lowrank, Recall@5 / nDCG@10 would be 0.5265 / 0.4655 with words of two letters and more.
RANK, KEPT, OVERSAMPLED, ITERATIONS, SEED = 522, 512, 10, 5, 20260910
MIN_DOCUMENTS, MOST_TERMS = 2, 20_000
RETRIEVED, RECALL_AT = 10, 5

Tokens = Literal["two_letters", "all"]
# The paper does not say what a word is. Recall@5 / nDCG@10 are 0.532 / 0.469 with words of two letters and more, and
# 0.519 / 0.452 with all words; the paper's are 0.525 / 0.4636.
TOKENS: dict[Tokens, str] = {"two_letters": r"(?u)\b\w\w+\b", "all": r"(?u)\b\w+\b"}


def load(data: Data, tokens: Tokens = "two_letters") -> LayeredTask:
    """The retrieval task: X the claims' representations [300, 512], one product with the abstracts' [5183, 512].

    Positions in its lists are places of abstracts in the text order of their ids. Raises: EnvironmentUnusableError.
    """
    text = read_scifact(data)
    held = representations(text, tokens)
    places = {abstract.id: place for place, abstract in enumerate(text.abstracts)}
    relevant = tuple(frozenset(places[name] for name in claim.relevant) for claim in text.claims)
    return LayeredTask(
        about=Description(
            name="scifact",
            data="SciFact abstracts and the development claims that BEIR uses as test queries",
            size=(len(text.abstracts), len(text.claims)),
            split=(),
            computation=f"inner products of latent representations (TF-IDF, {tokens} tokens; randomized SVD to {KEPT})",
            endpoint=f"the {RETRIEVED} abstracts retrieved for each claim",
            aggregate=f"Recall@{RECALL_AT}, nDCG@{RETRIEVED}",
            differs="tokenisation is ours (words of two letters and more); SVD on a CPU",
        ),
        X=held["queries"],
        layers=(Product(site="scores", W=held["documents"]),),
        judge=Retrieval(relevant=relevant),
    )


def representations(text: SciFactText, tokens: Tokens = "two_letters") -> Arrays:
    """Arrays "documents" [n, 512] and "queries" [m, 512], float32, rows of length one. Cached.

    Maths: TF-IDF of unigrams and bigrams with 1 + log(tf), ln((1 + n) / (1 + df)) + 1 and rows of length one, fitted on
    the abstracts; D = U S V^T by randomized SVD; documents U S, queries Q V. All in FP64 before the last conversion.
    Source: BioAgent-DF B.1.
    """
    documents = [abstract.text for abstract in text.abstracts]
    queries = [claim.text for claim in text.claims]
    settings = {
        "vectors": [RANK, KEPT, OVERSAMPLED, ITERATIONS, SEED, MIN_DOCUMENTS, MOST_TERMS],
        "pattern": TOKENS[tokens],
        "scikit-learn": version("scikit-learn"),
    }
    inputs = tuple(digest("\n".join(part).encode()) for part in (documents, queries))
    return prepared("scifact", settings, inputs, lambda: _represented(documents, queries, TOKENS[tokens]))


def _represented(documents: list[str], queries: list[str], pattern: str) -> Arrays:
    weighting = TfidfVectorizer(
        ngram_range=(1, 2),
        min_df=MIN_DOCUMENTS,
        max_features=MOST_TERMS,
        sublinear_tf=True,
        smooth_idf=True,
        norm="l2",
        token_pattern=pattern,
        dtype=np.float64,
    )
    D = weighting.fit_transform(documents)
    U, S, Vt = randomized_svd(D, RANK, n_oversamples=OVERSAMPLED, n_iter=ITERATIONS, random_state=SEED)
    basis = Vt[:KEPT].T
    latent = {"documents": U[:, :KEPT] * S[:KEPT], "queries": weighting.transform(queries) @ basis}
    return {name: normalize(values).astype(np.float32) for name, values in latent.items()}


@dataclass(frozen=True, slots=True, kw_only=True)
class Retrieval:
    """Lists of the best documents of each query, against the places of its relevant ones."""

    relevant: tuple[frozenset[int], ...]

    def __call__(self, scores: Array) -> TaskOutcome:
        """The lists, and the means over queries of Recall@5 and nDCG@10 (binary gain, discount log2(rank + 1))."""
        lists = best_columns(scores, RETRIEVED)
        hits = np.array(
            [[place in relevant for place in row] for row, relevant in zip(lists, self.relevant, strict=True)]
        )
        counts = np.array([len(relevant) for relevant in self.relevant])
        discounts = 1 / np.log2(np.arange(RETRIEVED) + 2)
        ideal = np.cumsum(discounts)[np.minimum(counts, RETRIEVED) - 1]
        recall = float((hits[:, :RECALL_AT].sum(axis=1) / counts).mean())
        gain = float((hits @ discounts / ideal).mean())
        metrics = ((f"Recall@{RECALL_AT}", recall), (f"nDCG@{RETRIEVED}", gain))
        return TaskOutcome(lists=lists, labels=None, metrics=metrics)
