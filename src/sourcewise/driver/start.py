"""From a study file to a campaign in a store."""

from __future__ import annotations

from pathlib import Path

from sourcewise.campaign.campaign import Campaign, Store
from sourcewise.errors import CampaignError, StorageError, at
from sourcewise.studyfile.file import StudyFile


def name_of(file: StudyFile, name: str | None = None) -> str:
    """What a campaign of this file is called: the given name, the file's own, or that of the file."""
    if name is not None:
        return name
    return file.name or (Path(file.origin.name).stem if file.origin.folder is not None else "campaign")


def create_campaign(
    file: StudyFile,
    store: Store,
    *,
    budget: float | None = None,
    name: str | None = None,
    keep_rows: bool = False,
    author: str | None = None,
) -> Campaign:
    """A new campaign on the terms of a study file."""
    money = budget if budget is not None else file.budget
    if money is None:
        with at("precision"):
            raise CampaignError(
                "a campaign needs a budget, which its policy divides into rounds; a target precision can end it "
                "earlier. `sourcewise plan` says what a precision costs"
            )
    return Campaign.create(
        store,
        file.study,
        budget=money,
        policy=file.policy,
        name=name_of(file, name),
        target_width=file.precision,
        level=file.level,
        keep_rows=keep_rows,
        author=author,
    )


def open_or_create(file: StudyFile, store: Store, *, name: str | None, author: str | None) -> Campaign:
    """The campaign that an earlier call began, or a new one."""
    called = name_of(file, name)
    try:
        found = Campaign.open(store, called, author=author)
    except StorageError:
        try:
            return create_campaign(file, store, name=name, author=author)
        except StorageError:  # another process was quicker, or the store is not to be had, which open then says
            found = Campaign.open(store, called, author=author)
    asked, there = file.study, found.study
    if asked.moments != there.moments or asked.target != there.target or set(asked.sources) - set(there.sources):
        raise CampaignError(
            f"campaign {called!r} in this store is of another study; give this one another name, or another store"
        )
    return found
