"""Write summaries.json from what `sourcewise reproduce all --out DIR` left: python tests/experiments/store.py DIR

Only the smallest and the largest budget are kept, which is what the tests play.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

KEPT = ("policy", "budget", "runs", "trimmed", "median", "coverage")


def main(folder: Path) -> None:
    stored = {}
    for path in sorted(folder.glob("*/figure.json")):
        cells = json.loads(path.read_text(encoding="utf-8"))
        budgets = {cell["budget"] for cell in cells}
        shown = [cell for cell in cells if cell["budget"] in (min(budgets), max(budgets))]
        keys = [key for key in shown[0] if key in KEPT or key.startswith("kappa")]
        stored[path.parent.name] = [[cell[key] for key in keys] for cell in shown]
        stored[path.parent.name].insert(0, keys)
    lines = ",\n".join(
        f'"{name}": [\n' + ",\n".join(json.dumps(row) for row in rows) + "\n]" for name, rows in stored.items()
    )
    Path(__file__).with_name("summaries.json").write_text("{\n" + lines + "\n}\n", encoding="utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
