"""Campaigns: ask for rows, tell what came, estimate, report; kept in a store that any number of people share.

`campaign` is what a user sees. `terms` and `progress` are what a store keeps of a campaign, `delivery` reads what was
delivered, `steps` decides what happens next, `record` gathers all of it for a report, `transfer` carries it elsewhere.
"""
