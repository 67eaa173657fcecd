"""Relations and verdicts: real conflicts are found, apparent ones are not, and the lists are obeyed."""

from itertools import permutations
from typing import Any

import pytest

from specialists.licences.evidence import Evidence
from specialists.licences.expressions import parse
from specialists.licences.relations import relation
from specialists.licences.verdict import DEFAULT_ALLOW, DEFAULT_DENY, Claim, judge, summarise, weigh_licence

OSI = "Classifier: License :: OSI Approved :: "


def expression(text: str, **more: Any) -> Evidence:
    return Evidence(kind="expression", expression=text, **more)


def vague(text: str, **more: Any) -> Evidence:
    return Evidence(kind="vague", family=text, **more)


@pytest.mark.parametrize(
    ("one", "other", "related"),
    [
        (expression("MIT"), expression("MIT"), "equal"),
        (expression("MIT"), Evidence(kind="absent"), "silent"),
        (expression("MIT"), Evidence(kind="unidentified", texts=["0" * 64]), "silent"),
        (vague("BSD"), expression("BSD-3-Clause"), "refines"),
        (vague("GPL"), vague("GPL-2.0"), "refines"),
        (vague("GPL-2.0"), expression("GPL-2.0-or-later"), "refines"),
        (vague("GPL-2.0"), expression("GPL-2.0-only WITH Classpath-exception-2.0"), "refines"),
        (vague("Proprietary"), expression("LicenseRef-NVIDIA-Proprietary"), "refines"),
        (expression("PSF-2.0"), expression("Python-2.0.1"), "refines"),
        (expression("Apache-2.0 OR MIT"), expression("Apache-2.0 AND MIT"), "refines"),
        (expression("Apache-2.0 OR MIT"), expression("MIT"), "refines"),
        (expression("MIT"), expression("MIT", bundled=["Zlib"]), "extra"),
        (expression("Apache-2.0 AND MIT"), expression("Apache-2.0", bundled=["MIT"]), "extra"),
        (expression("Apache-2.0 AND MIT"), expression("Apache-2.0", texts=["0" * 64]), "extra"),
        (expression("MIT"), expression("Apache-2.0 AND MIT"), "conflict"),
        (expression("GPL-2.0-only"), expression("GPL-2.0-or-later"), "conflict"),
        (vague("BSD"), expression("MIT"), "conflict"),
    ],
)
def test_two_answers_relate_the_same_in_both_directions(one: Evidence, other: Evidence, related: str) -> None:
    assert (relation(one, other), relation(other, one)) == (related, related)


@pytest.mark.parametrize(
    ("licence", "verdict"),
    [
        ("MIT", "allow"),
        ("Apache-2.0+", "allow"),
        ("GPL-3.0-only", "deny"),
        ("GPL-3.0", "deny"),
        ("MIT AND GPL-3.0-only", "deny"),
        ("MIT OR GPL-3.0-only", "allow"),
        ("Artistic-1.0-Perl OR GPL-2.0-or-later", "ask"),
        ("MIT AND (GPL-2.0-only OR AGPL-3.0-only)", "deny"),
        ("Apache-2.0 WITH LLVM-exception", "allow"),
        ("GPL-2.0-only WITH Classpath-exception-2.0", "allow"),
        ("GPL-2.0-only WITH Autoconf-exception-2.0", "deny"),
        ("LicenseRef-NVIDIA-Proprietary", "ask"),
        ("BSD", "ask"),
        ("PSF", "allow"),
    ],
)
def test_deny_matches_each_part_and_the_best_alternative(licence: str, verdict: str) -> None:
    assert weigh_licence(parse(licence), DEFAULT_ALLOW, DEFAULT_DENY) == verdict


def test_an_entry_may_be_an_expression() -> None:
    claims = [Claim(by="field", value=expression("Artistic-2.0 OR GPL-1.0-or-later"), won=True)]
    assert judge("perl", "5", claims, ["MIT"], ["GPL-*"]).verdict == "ask"
    assert judge("perl", "5", claims, ["GPL-1.0-or-later OR Artistic-2.0"], ["GPL-*"]).verdict == "allow"


def test_uvloop_is_a_conflict(environment: Any, mit: str, apache: str) -> None:
    headers = f"License: MIT License\n{OSI}Apache Software License\n{OSI}MIT License"
    environment.add("uvloop", "0.23.0", headers, {"LICENSE-APACHE": apache, "LICENSE-MIT": mit})
    row = environment.judge("uvloop==0.23.0")
    assert (row.licence, row.relation, row.verdict, row.decided_from) == ("MIT", "conflict", "ask", ["field"])
    assert "texts says Apache-2.0 AND MIT" in row.reason


def test_orjson_is_consistent(environment: Any, mit: str, apache: str, mpl: str) -> None:
    names = ("Apache Software License", "MIT License", "Mozilla Public License 2.0 (MPL 2.0)")
    headers = "License-Expression: MPL-2.0 AND (Apache-2.0 OR MIT)\n" + "\n".join(OSI + name for name in names)
    environment.add("orjson", "3.13.0", headers, {"LICENSE-APACHE": apache, "LICENSE-MIT": mit, "LICENSE-MPL-2.0": mpl})
    row = environment.judge("orjson==3.13.0")
    assert (row.licence, row.relation) == ("MPL-2.0 AND (Apache-2.0 OR MIT)", "refines")
    assert (row.verdict, row.decided_from) == ("allow", ["classifiers", "field", "texts"])


def test_text_unidecode_asks_and_is_not_denied(environment: Any, artistic: str) -> None:
    names = ("Artistic License", "GNU General Public License (GPL)", "GNU General Public License v2 or later (GPLv2+)")
    headers = "License: Artistic License\n" + "\n".join(OSI + name for name in names)
    text = f"You can redistribute it under the terms of either: * GPL or GPLv2+, or * Artistic License:\n\n{artistic}"
    environment.add("text-unidecode", "1.3", headers, {"LICENSE": text})
    row = environment.judge("text-unidecode==1.3")
    assert (row.relation, row.verdict) == ("refines", "ask")


def test_shapelys_bundled_lgpl_is_seen_by_the_policy(environment: Any, bsd: str, lgpl: str) -> None:
    environment.add("shapely", "2.2.0", "License-Expression: BSD-3-Clause", {"LICENSE.txt": bsd, "LICENSE_GEOS": lgpl})
    row = environment.judge("shapely==2.2.0")
    assert (row.licence, row.relation, row.verdict, row.bundled) == ("BSD-3-Clause", "extra", "ask", ["LGPL-2.1"])
    assert environment.judge("shapely==2.2.0", deny=["LGPL-*"]).verdict == "deny"
    assert environment.judge("shapely==2.2.0", allow=["BSD-*", "LGPL-*"]).verdict == "allow"


def test_a_proprietary_reference_asks(environment: Any) -> None:
    headers = "License-Expression: LicenseRef-NVIDIA-Proprietary\nClassifier: License :: Other/Proprietary License"
    environment.add("nvidia-nvtx-cu12", "12.9.79", headers)
    row = environment.judge("nvidia-nvtx-cu12==12.9.79")
    assert (row.licence, row.relation, row.verdict) == ("LicenseRef-NVIDIA-Proprietary", "refines", "ask")


def test_the_narrower_name_wins(environment: Any, bsd: str) -> None:
    environment.add("colorama", headers=f"{OSI}BSD License", texts={"LICENSE": bsd})
    row = environment.judge("colorama==1.0")
    assert (row.licence, row.relation, row.verdict) == ("BSD-3-Clause", "refines", "allow")
    assert row.decided_from == ["classifiers", "texts"]


def test_what_is_not_known_asks(environment: Any) -> None:
    environment.add("nothing")
    environment.add("odd", headers="License: MIT", texts={"LICENSE": "You may use this on Tuesdays."})
    assert environment.judge("nothing==1.0").model_dump(include={"licence", "verdict", "relation", "reason"}) == {
        "licence": "",
        "verdict": "ask",
        "relation": "silent",
        "reason": "no source names a licence",
    }
    odd = environment.judge("odd==1.0")
    assert (odd.licence, odd.verdict) == ("MIT", "ask")
    assert "not recognised" in odd.reason


def test_a_conflict_of_denied_licences_is_denied() -> None:
    claims = [
        Claim(by="a", value=expression("GPL-2.0-only"), won=True),
        Claim(by="b", value=expression("AGPL-3.0-only")),
    ]
    assert judge("one", "1", claims, DEFAULT_ALLOW, DEFAULT_DENY).verdict == "deny"


def test_the_order_of_the_claims_does_not_matter() -> None:
    claims = [
        Claim(by="a", value=vague("BSD"), won=True),
        Claim(by="b", value=expression("BSD-3-Clause", bundled=["MIT"])),
        Claim(by="c", value=Evidence(kind="absent")),
    ]
    rows = [judge("one", "1", list(order), DEFAULT_ALLOW, DEFAULT_DENY) for order in permutations(claims)]
    assert rows == [rows[0]] * 6
    assert summarise(rows)["allow"] == 6
