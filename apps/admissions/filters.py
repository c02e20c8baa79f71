"""The filter of waiting work, shared by page, CSV and REST. Input: query parameters; output: `Criteria`, `Window`.

Use: `form = WaitingForm(request.GET, now=now, team_ids=team_ids)`; `form.is_valid()`; `form.criteria`,
`form.window`. A team that the reader may not see is the same error (code "not_found") as one that does not exist.
"""
