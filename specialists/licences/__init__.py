"""The licence audit of a Python environment: what each distribution says about its licence, where that disagrees, and
what a policy makes of it.

The reader's order: `inventory` (what is installed) -> `evidence` (what each source says, from `names` and `texts`) ->
`relations` (do two sources agree) -> `verdict` (what the policy decides) -> `report` (SBOM and table). Everything
here is deterministic and reads files only; nothing of the audited environment is imported or run.
"""
