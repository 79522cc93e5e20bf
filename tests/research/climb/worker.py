"""A worker that climbs by steps of one, from what lies in its workspace."""


def search(bench):
    """Walks up from the workspace's x and submits each step."""
    file = bench.workspace / "x.txt"
    x = int(file.read_text()) if file.exists() else 0
    while bench.remaining_s() > 0:
        file.write_text(str(x))
        outcome = bench.submit(f"tried {x}")
        if outcome.segment_over:
            return "segment over"
        x += 1
    return "out of time"
