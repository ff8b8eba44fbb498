"""The review page: people confirm or reject labels of a run, on this machine only.

`session` chooses questions and saves answers (with `log`); `server` serves the
page over `http`, which trusts no request.
"""
