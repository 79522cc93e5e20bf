"""Endpoints: what two runs are compared on, from an agent's path to the numbers of a ranking. Pure values."""

from veristate.audit.endpoints.difference import Cell, DiffRow, Mark, path_diff
from veristate.audit.endpoints.divergence import (
    Divergence,
    Exchange,
    Parting,
    first_divergence,
    first_divergent_step,
)
from veristate.audit.endpoints.hiding import (
    ClippedGradient,
    NormalisedRows,
    argmax_changes,
    clip_to_norm,
    clipped_gradient,
    cosine,
    normalised_rows,
    softmax,
    total_variation,
)
from veristate.audit.endpoints.path import (
    ENDPOINTS,
    EVIDENCE,
    Citation,
    Comparison,
    Component,
    Endpoint,
    Path,
    compared,
    differences,
    items,
)
from veristate.audit.endpoints.ranking import Ranking, membership_changes, order_changes
from veristate.audit.endpoints.retrieval import labels_along, list_ndcg, list_recall, ndcg_at, recall_at
from veristate.audit.endpoints.squared_error import ErrorShift, error_shift, rmse

__all__ = [
    "ENDPOINTS",
    "EVIDENCE",
    "Cell",
    "Citation",
    "ClippedGradient",
    "Comparison",
    "Component",
    "DiffRow",
    "Divergence",
    "Endpoint",
    "ErrorShift",
    "Exchange",
    "Mark",
    "NormalisedRows",
    "Parting",
    "Path",
    "Ranking",
    "argmax_changes",
    "clip_to_norm",
    "clipped_gradient",
    "compared",
    "cosine",
    "differences",
    "error_shift",
    "first_divergence",
    "first_divergent_step",
    "items",
    "labels_along",
    "list_ndcg",
    "list_recall",
    "membership_changes",
    "ndcg_at",
    "normalised_rows",
    "order_changes",
    "path_diff",
    "recall_at",
    "rmse",
    "softmax",
    "total_variation",
]
