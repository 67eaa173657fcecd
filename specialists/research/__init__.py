"""The research team: a question, a folder of documents, and an answer in which every sentence cites where it stands.

The reader's order: `documents` (what there is to read) -> `chunks` (pieces with stable ids) -> `index` (full-text
search, kept between questions) -> `extraction` (sentences that answer, word for word) and `drafting` (sentences of a
model) -> `support` (does a citation hold) -> `report` -> `team` (who does it, in which order).
"""
