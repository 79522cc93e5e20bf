"""The whole chain: a decision is screened, certified, committed, logged, witnessed and exported; a stranger who has
the export and the witness's key, and nothing else, verifies it offline and challenges the screening.

    python whole_chain.py

The fault is simulated. Everything lies in a temporary folder; each command below is one that a user would type.
"""

import csv
import subprocess
import sys
import tempfile
from pathlib import Path

from veristate.screening.cases import herg

VERISTATE = [sys.executable, "-W", "ignore", "-m", "veristate"]
WITNESS = "example.org/witness"
CANDIDATES = 96


def veristate(*words: object, expect: int = 0) -> str:
    """What the command says on its standard output."""
    print("$ veristate", *words, flush=True)
    done = subprocess.run([*VERISTATE, *map(str, words)], capture_output=True, text=True, check=False)
    if done.returncode != expect:
        raise SystemExit(f"exit code {done.returncode}, not {expect}\n{done.stdout}{done.stderr}")
    print("\n".join("    " + line for line in done.stdout.splitlines()[-4:]), flush=True)
    return done.stdout


def few_candidates(path: Path) -> Path:
    """A small table: the first drugs of the built-in one."""
    with herg.herg_table().open(newline="") as source, path.open("w", newline="") as target:
        reader = csv.DictReader(source)
        writer = csv.DictWriter(target, ("id", "smiles", "name"), extrasaction="ignore")
        writer.writeheader()
        writer.writerows(row for row, _ in zip(reader, range(CANDIDATES), strict=False))
    return path


def main() -> None:
    """Runs the chain."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        store, export, policy = folder / "store", folder / "run.zip", folder / "policy"
        # The one who screens: a faulty device, restored, certified, committed.
        table = few_candidates(folder / "candidates.csv")
        veristate("screen", table, "--top", 10, "--inject", "case2", "--seed", 7, "--compare", "--store", store)
        # Somebody else's witness, who will cosign only heads that continue each other.
        log_key = veristate("log", "key", "--store", store).split()[-1]
        with subprocess.Popen(
            [*VERISTATE, "witness", "serve", "--name", WITNESS, "--log", log_key, "--port", "0"],
            stdout=subprocess.PIPE,
            cwd=folder,
            text=True,
        ) as witness:
            try:
                assert witness.stdout is not None
                line = next(text for text in witness.stdout if text.startswith("witness "))
                (store / "log.policy").write_text(f"{line.strip()}\nquorum {line.split()[1]}\n")
                veristate("log", "deliver", "--store", store)
            finally:
                witness.terminate()
        veristate("export", store, "--out", export)
        # The stranger: believes that log key and that witness, has the file, and neither network nor store.
        policy.write_text(f"log {log_key}\n{line.strip()}\nquorum {line.split()[1]}\n")
        veristate("verify", export, "--policy", policy)
        veristate("challenge", export, "veristate.screening", "--policy", policy)
        # A byte changed anywhere is seen.
        changed = bytearray(export.read_bytes())
        changed[len(changed) // 2] ^= 1
        (folder / "changed.zip").write_bytes(changed)
        veristate("verify", folder / "changed.zip", "--policy", policy, expect=3)


if __name__ == "__main__":
    main()
