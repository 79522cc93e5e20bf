"""Runs every benchmark, or those named, and rewrites the table of `docs/performance.md` from what they wrote."""

import json
import subprocess
import sys

from benchmarks.record import HERE, RESULTS

PAGE = HERE.parent / "docs" / "performance.md"
ORDER = (
    "default_case",
    "first_run",
    "healthy_passes",
    "recovery_study",
    "selective_recovery",
    "check_overhead",
    "flag_identity",
    "false_alarms",
    "detection_power",
    "fault_scoring",
    "certificate_scale",
    "audit_speed",
    "task_survey",
    "scifact_study",
    "cheap_certificates",
    "packing",
    "campaigns",
    "kttsp",
    "estra_ablation",
    "snapshots",
    "crash_resume",
    "engine_time",
    "challenge_power",
    "anchor_gas",
    "log_throughput",
    "partition_faults",
    "tampering",
)
MARKS = {True: "met", False: "**missed**", None: "reported"}
HEAD = """# Performance

Written by `make bench` from `benchmarks/results/`; one script each, run alone with `python -m benchmarks.NAME`.
Faults are simulated: no faulty accelerator was used for any figure. Wall times depend on the machine and its load;
ratios and counts do not.

"""


def main() -> None:
    """Runs, then writes the table. Arguments name benchmarks; `--table` only rewrites the table."""
    wanted = sys.argv[1:] or list(ORDER)
    for name in wanted:
        if name != "--table":
            subprocess.run([sys.executable, "-W", "ignore", "-m", f"benchmarks.{name}"], check=True)
    PAGE.write_text(HEAD + "\n".join(section(name) for name in ORDER), encoding="utf-8")


def section(name: str) -> str:
    """One benchmark's part of the page."""
    path = RESULTS / f"{name}.json"
    if not path.exists():
        return f"## {name}\n\nNot run yet.\n"
    found = json.loads(path.read_text(encoding="utf-8"))
    machine = found["machine"]
    lines = [
        f"## {name}",
        "",
        f"{machine['processor']}, {machine['cores']} cores ({', '.join(machine['instructions'])}); "
        f"torch {found['versions']['torch']}; commit {found['commit']}; {found['seconds']:.0f} s.",
        "",
        "| claim | measured | unit | bar | | detail |",
        "|---|---|---|---|---|---|",
    ]
    for row in found["rows"]:
        cells = [row["claim"], row["measured"], row["unit"], row["bar"], MARKS[row["met"]], row["detail"]]
        lines.append("| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |")
    return "\n".join([*lines, ""])


if __name__ == "__main__":
    main()
