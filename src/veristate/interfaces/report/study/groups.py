"""The path diff: reference, candidate and restored of single groups, as a reader can follow them."""

from collections.abc import Iterable, Mapping

from veristate.audit.design import Condition, key_of
from veristate.audit.endpoints import Cell, Component, DiffRow, Mark, differences, path_diff
from veristate.audit.statistics import Group, Standing
from veristate.audit.study import Series, group_name, item_words
from veristate.interfaces.report.markup import Child, Markup, el, join
from veristate.interfaces.report.words import clip, count, listed, plural

SHOWN, OPEN = 40, 2
_FOREMOST = (Component.VERDICT, Component.CITED, Component.READ)
_SIGNS = {Mark.SAME: "", Mark.MOVED: "\u2195 ", Mark.FOREIGN: "+ ", Mark.ABSENT: "\u2013", Mark.EMPTY: ""}


def groups_section(series: Iterable[Series], titles: Mapping[str, str]) -> Markup:
    """Groups whose candidate differs somewhere first, as many as a page can hold."""
    found = [(one, group) for one in series for group in one.groups if _comparable(group)]
    changed = sorted((pair for pair in found if _changes(pair[1])), key=lambda pair: _rank(pair[1]))
    alike = [pair for pair in found if not _changes(pair[1])]
    picked = [*changed, *alike][:SHOWN]
    lead: list[Child] = [
        f"The candidate\u2019s path differs from the reference\u2019s in {count(len(changed))} of "
        f"{plural(len(found), 'group')} in which both are complete. "
    ]
    if len(found) > len(picked):
        shows = el("code", "veristate audit show")
        lead += [
            f"{count(len(picked))} are shown, those that differ in verdict, citations or reads first; ",
            shows,
            " prints any of them.",
        ]
    key = el(
        "ul",
        el("li", el("span", "+ item", class_="foreign"), " the reference has it nowhere"),
        el("li", el("span", "\u2195 item", class_="moved"), " the reference has it at another place"),
        el("li", el("span", "\u2013", class_="absent"), " missing here"),
        class_="key marks",
    )
    shown = [_group(one, group, titles, place < OPEN) for place, (one, group) in enumerate(picked)]
    return el("section", el("h2", "The paths, side by side"), el("p", lead, class_="lead"), key, shown, id="groups")


def _comparable(group: Group) -> bool:
    return all(group.standing(name) is Standing.COUNTED for name in (Condition.H1, Condition.C))


def _changes(group: Group) -> list[str]:
    """The components that differ in any way."""
    found = differences(group.path(Condition.H1), group.path(Condition.C))
    return [
        part.value for part in Component if any(changed for name, changed in found.items() if name.startswith(part))
    ]


def _rank(group: Group) -> tuple[bool, ...]:
    """What sorts groups that change evidence or verdict before those that only retrieve something else."""
    changes = _changes(group)
    return tuple(part.value not in changes for part in _FOREMOST)


def _group(one: Series, group: Group, titles: Mapping[str, str], opened: bool) -> Markup:
    restored = group.path(Condition.FULL) if group.standing(Condition.FULL) is Standing.COUNTED else None
    rows = path_diff(group.path(Condition.H1), group.path(Condition.C), restored)
    changes = _changes(group)
    said = f"differs in {listed(changes)}" if changes else "the same path"
    back = _restored(group) if changes else ""
    title = el("summary", el("b", clip(group_name(one, group), 90)), f" \u2014 {said}{back}")
    names = ("", "Reference", "Candidate", "Restored") if restored is not None else ("", "Reference", "Candidate")
    head = el("thead", el("tr", [el("th", name, scope="col") for name in names]))
    body = el("tbody", _rows(rows, titles, restored is not None))
    table = el("div", el("table", head, body, class_="paths"), class_="scroll")
    return el("details", title, el("div", _replaced(one, group), table), class_="group", open=opened)


def _restored(group: Group) -> str:
    if group.standing(Condition.FULL) is not Standing.COUNTED:
        return "; full restoration is not complete"
    found = differences(group.path(Condition.H1), group.path(Condition.FULL))
    return "; full restoration does not return all of it" if any(found.values()) else "; full restoration returns it"


def _replaced(one: Series, group: Group) -> Markup | None:
    """What the selective conditions replaced here, one sentence each."""
    told = []
    for condition in (Condition.SELECTED, Condition.TRANSPLANT):
        replaced = one.replacements.get((key_of(group), condition))
        if replaced is None:
            continue
        target = Condition.H1 if condition is Condition.SELECTED else Condition.C
        reached = (
            "did not complete"
            if group.standing(condition) is not Standing.COUNTED
            else f"gives the path of {target}"
            if group.path(condition) == group.path(target)
            else f"does not give the path of {target}"
        )
        amount = f"{count(replaced.effective)} of {count(replaced.differing)} differing scores"
        nothing = " (a replacement without effect)" if not replaced.effective else ""
        told.append(f"{condition.value}: {amount} replaced{nothing}, {reached}")
    return el("p", "; ".join(told) + ".", class_="note") if told else None


def _rows(rows: tuple[DiffRow, ...], titles: Mapping[str, str], restored: bool) -> list[Markup]:
    made, before = [], None
    for row in rows:
        begins = row.component is not before
        before = row.component
        cells: list[Child] = [
            el("th", row.component.value if begins else "", scope="row"),
            el("td", _item(row.component, row.reference, titles)),
            _cell(row.component, row.candidate, titles),
        ]
        if restored:
            cells.append(_cell(row.component, row.restored, titles))
        same = not row.differs and (row.restored is None or row.restored.mark in (Mark.SAME, Mark.EMPTY))
        classes = " ".join(name for name, wanted in (("begins", begins), ("equal", same)) if wanted)
        made.append(el("tr", cells, class_=classes or None))
    return made


def _cell(component: Component, cell: Cell | None, titles: Mapping[str, str]) -> Markup:
    if cell is None:
        return el("td")
    return el("td", _SIGNS[cell.mark], _item(component, cell.item, titles), class_=cell.mark.value)


def _item(component: Component, item: str | None, titles: Mapping[str, str]) -> Markup:
    if item is None:
        return Markup("")
    document = item.split("/")[0]
    title = titles.get(document, "") if component in (Component.RETRIEVED, Component.READ, Component.CITED) else ""
    return join(clip(item_words(component, item), 60), el("small", clip(title, 90)) if title else None)
