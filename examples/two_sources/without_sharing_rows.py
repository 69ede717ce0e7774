"""Two owners send sums, not rows, and the analyst's fit is the one that all rows would have given."""

from __future__ import annotations

import sourcewise as sw
from sourcewise.example import STUDY, path


def owner(source: str) -> str:
    """What leaves the building: the statistics of one source, as JSON."""
    sums = sw.summarize(STUDY, source, path(source))
    # Moments that do not separate into data and parameters need the rows, and an owner must not send those.
    if not isinstance(sums, sw.Statistics):
        raise SystemExit(f"the moments of {source} need its rows; nothing was sent")
    return sums.to_json()


def analyst(letters: dict[str, str]) -> sw.Fit:
    """The fit of what the owners sent."""
    return sw.fit(STUDY, {source: sw.Statistics.from_json(text) for source, text in letters.items()})


def main() -> None:
    letters = {source: owner(source) for source in STUDY.sources}
    for source, text in letters.items():
        print(f"{source} sends {len(text)} characters")
    print(analyst(letters).summary())


if __name__ == "__main__":
    main()
