"""The first cell of the built-in controllers: read a table of scores, decide by rules, write a report."""

import csv
import math
from pathlib import Path
from typing import Any


def read_scores(table: str) -> dict[str, float]:
    """The score of each identifier, in the order of the file."""
    scores: dict[str, float] = {}
    with Path(table).open(newline="", encoding="utf-8") as file:
        for row in csv.DictReader(file):
            if row["id"] in scores:
                raise ValueError(f"{table}: the identifier {row['id']!r} stands twice")
            scores[row["id"]] = float(row["score"])
            if math.isnan(scores[row["id"]]):
                raise ValueError(f"{table}: {row['id']!r} has no score")
    return scores


def ranked(rule: dict[str, Any], scores: dict[str, float]) -> list[tuple[float, str]]:
    """(distance, identifier) from the first that the rule would take to the last; ties by identifier as text."""
    if rule["kind"] == "nearest":
        target = float(rule["threshold"])
        return sorted((abs(score - target), name) for name, score in scores.items())
    return sorted((-score, name) for name, score in scores.items())


def decide(rule: dict[str, Any], scores: dict[str, float]) -> tuple[list[str], list[str]]:
    """The identifiers that the rule takes and those that it leaves, each in order of rank."""
    order = ranked(rule, scores)
    if rule["kind"] == "threshold":
        count = sum(score >= float(rule["threshold"]) for score in scores.values())
    else:
        count = rule["count"]
    names = [name for _, name in order]
    return names[:count], names[count:]


def describe(rule: dict[str, Any], scores: dict[str, float], taken: list[str], left: list[str]) -> list[str]:
    """The section of the report about one rule: the decision, the items at its boundary, their margin."""
    title = {
        "top_k": f"the {rule['count']} highest scores",
        "threshold": f"scores of at least {rule['threshold']}",
        "nearest": f"the {rule['count']} scores nearest to {rule['threshold']}",
    }[rule["kind"]]
    lines = [f"## {rule['kind']}: {title}", "", f"Chosen ({len(taken)}): {', '.join(sorted(taken)) or 'none'}", ""]
    if taken:
        lines.append(f"- last in: {taken[-1]}, score {scores[taken[-1]]!r}")
    if left:
        lines.append(f"- first out: {left[0]}, score {scores[left[0]]!r}")
    if rule["kind"] == "threshold":
        edge = taken[-1:] + left[:1]
        lines += [f"- margin of {name}: {abs(scores[name] - float(rule['threshold']))!r}" for name in edge]
    elif taken and left:
        distance = {name: value for value, name in ranked(rule, scores)}
        lines.append(f"- margin between them: {distance[left[0]] - distance[taken[-1]]!r}")
    return lines


def work(table: str, report: str, rules: list[dict[str, Any]]) -> dict[str, list[str]]:
    """The chosen identifiers of each rule, sorted as text; the report is written."""
    scores = read_scores(table)
    chosen: dict[str, list[str]] = {}
    lines = [f"# Decision on {table}", "", f"{len(scores)} candidates.", ""]
    for rule in rules:
        taken, left = decide(rule, scores)
        chosen[rule["kind"]] = sorted(taken)
        lines += [*describe(rule, scores, taken, left), ""]
    Path(report).write_text("\n".join(lines), encoding="utf-8")
    return chosen
