"""Families: what people write when they do not say which version or variant of a licence they mean.

A family stands for a set of SPDX ids. Two names can mean the same licence when their sets meet, and a name is
narrower when its set is smaller. `GPL-2.0` is a family too: the text of the GNU GPL does not say whether later
versions are allowed, only the author can. An SPDX expression in which an author uses that deprecated id means
`GPL-2.0-only`; `expressions.declared` resolves it before it comes here.
"""

from fnmatch import fnmatchcase


def _gnu(name: str, *versions: str) -> dict[str, tuple[str, ...]]:
    """The family without a version, and one for each version without `only` or `or later`."""
    each = {f"{name}-{version}": (f"{name}-{version}-only", f"{name}-{version}-or-later") for version in versions}
    return {name: tuple(member for members in each.values() for member in members)} | each


FAMILIES: dict[str, tuple[str, ...]] = {
    **_gnu("AGPL", "1.0", "3.0"),
    **_gnu("GFDL", "1.1", "1.2", "1.3"),
    **_gnu("GPL", "1.0", "2.0", "3.0"),
    **_gnu("LGPL", "2.0", "2.1", "3.0"),
    # 'Lesser GPL v2' names no licence: version 2.0 was the Library GPL, the first Lesser GPL is 2.1. Authors mean
    # either.
    "LGPL-2.x": ("LGPL-2.0-only", "LGPL-2.0-or-later", "LGPL-2.1-only", "LGPL-2.1-or-later"),
    "LGPL-2.x-or-later": ("LGPL-2.0-or-later", "LGPL-2.1-or-later"),
    "AFL": ("AFL-1.1", "AFL-1.2", "AFL-2.0", "AFL-2.1", "AFL-3.0"),
    "APSL": ("APSL-1.0", "APSL-1.1", "APSL-1.2", "APSL-2.0"),
    "Apache": ("Apache-1.0", "Apache-1.1", "Apache-2.0"),
    "Artistic": ("Artistic-1.0", "Artistic-1.0-Perl", "Artistic-1.0-cl8", "Artistic-2.0", "ClArtistic"),
    "BSD": ("0BSD", "BSD-1-Clause", "BSD-2-Clause", "BSD-3-Clause", "BSD-4-Clause"),
    "EFL": ("EFL-1.0", "EFL-2.0"),
    "MIT-X11": ("MIT", "X11"),
    "MPL": ("MPL-1.0", "MPL-1.1", "MPL-2.0"),
    "NPL": ("NPL-1.0", "NPL-1.1"),
    # CPython's licence file is the stack of all its historic licences, of which PSF-2.0 is the one in force.
    "PSF": ("PSF-2.0", "Python-2.0", "Python-2.0.1"),
    "Proprietary": ("LicenseRef-*",),
    "ZPL": ("ZPL-1.1", "ZPL-2.0", "ZPL-2.1"),
}

# Texts that contain another licence: whoever ships the longer text also ships the shorter one, so naming either is no
# contradiction.
CONTAINS: dict[str, tuple[str, ...]] = {"Python-2.0": ("PSF-2.0",), "Python-2.0.1": ("PSF-2.0",)}


def is_family(name: str) -> bool:
    """Whether the name stands for several SPDX ids."""
    return name in FAMILIES


def members(name: str) -> tuple[str, ...]:
    """The SPDX ids that a name can mean; of an SPDX id, itself. `LicenseRef-*` stands for all of its kind.

    SPDX's `+` means this version or a later one: it meets the version it starts from.
    """
    return FAMILIES.get(name) or ((name, name.removesuffix("+")) if name.endswith("+") else (name,))


def overlap(one: str, other: str) -> bool:
    """Whether two names can mean the same licence."""
    if other in CONTAINS.get(one, ()) or one in CONTAINS.get(other, ()):
        return True
    pairs = ((a, b) for a in members(one) for b in members(other))
    return any(fnmatchcase(a, b) or fnmatchcase(b, a) for a, b in pairs)


def narrower(one: str, other: str) -> bool:
    """Whether `one`, which overlaps with `other`, says more precisely what is meant."""
    if is_family(other) and not is_family(one):
        return True
    return is_family(one) and is_family(other) and len(members(one)) < len(members(other))
