"""Evidence: field, classifiers and texts of the same licence are one value; what is not known is not guessed."""

from typing import Any

import pytest

from specialists.licences.evidence import Evidence, from_classifiers, from_field, from_texts

OSI = "Classifier: License :: OSI Approved :: "


def said(evidence: Evidence) -> dict[str, Any]:
    return evidence.model_dump(exclude_defaults=True)


@pytest.mark.parametrize(
    "field", ["License-Expression: MIT", "License: MIT", "License: The MIT License", "License: Expat"]
)
def test_mit_is_one_value_from_each_source(environment: Any, mit: str, field: str) -> None:
    environment.add("one", headers=f"{field}\n{OSI}MIT License", texts={"LICENSE": mit})
    distribution = environment.open("one==1.0")
    values = [said(source(distribution)) for source in (from_field, from_classifiers, from_texts)]
    assert values == [{"kind": "expression", "expression": "MIT"}] * 3


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("License-Expression: mit and apache-2.0", {"kind": "expression", "expression": "Apache-2.0 AND MIT"}),
        ("License-Expression: LGPL-2.1", {"kind": "expression", "expression": "LGPL-2.1-only"}),
        (
            "License-Expression: LicenseRef-NVIDIA-Proprietary",
            {"kind": "expression", "expression": "LicenseRef-NVIDIA-Proprietary"},
        ),
        (
            "License-Expression: GPL-2.0-only WITH Classpath-exception-2.0",
            {"kind": "expression", "expression": "GPL-2.0-only WITH Classpath-exception-2.0"},
        ),
        ("License: MIT/Apache-2.0", {"kind": "expression", "expression": "Apache-2.0 AND MIT"}),
        ("License: BSD 3-Clause OR Apache-2.0", {"kind": "expression", "expression": "Apache-2.0 OR BSD-3-Clause"}),
        ("License: MIT, ISC", {"kind": "expression", "expression": "ISC AND MIT"}),
        ("License: GPLv2 or later", {"kind": "expression", "expression": "GPL-2.0-or-later"}),
        ("License: GPLv3", {"kind": "vague", "family": "GPL-3.0"}),
        ("License: GPL-2.0", {"kind": "vague", "family": "GPL-2.0"}),
        ("License: BSD", {"kind": "vague", "family": "BSD"}),
        ("License: LGPL with exceptions", {"kind": "vague", "family": "LGPL"}),
        ("License: Apache", {"kind": "vague", "family": "Apache"}),
        ("License: UNKNOWN", {"kind": "absent"}),
        ("License: see LICENSE", {"kind": "absent"}),
        ("Summary: no field at all", {"kind": "absent"}),
        ("License: Our Own Terms", {"kind": "unidentified", "note": "the field says: Our Own Terms"}),
    ],
)
def test_the_field_is_normalised(environment: Any, field: str, value: dict[str, Any]) -> None:
    environment.add("one", headers=field)
    assert said(from_field(environment.open("one==1.0"))) == value


@pytest.mark.parametrize(
    ("classifiers", "value"),
    [
        (["Apache Software License", "MIT License"], {"kind": "expression", "expression": "Apache-2.0 AND MIT"}),
        (["BSD License"], {"kind": "vague", "family": "BSD"}),
        (["GNU General Public License (GPL)"], {"kind": "vague", "family": "GPL"}),
        (["GNU General Public License v2 (GPLv2)"], {"kind": "vague", "family": "GPL-2.0"}),
        (
            ["GNU General Public License (GPL)", "GNU General Public License v2 or later (GPLv2+)"],
            {"kind": "expression", "expression": "GPL-2.0-or-later"},
        ),
        (
            [
                "GNU General Public License v2 or later (GPLv2+)",
                "GNU Lesser General Public License v2 or later (LGPLv2+)",
                "Mozilla Public License 1.1 (MPL 1.1)",
            ],
            {"kind": "vague", "family": "GPL-2.0-or-later OR LGPL-2.x-or-later OR MPL-1.1"},
        ),
        (["A Licence That Was Never Registered"], {"kind": "absent"}),
    ],
)
def test_classifiers_are_combined(environment: Any, classifiers: list[str], value: dict[str, Any]) -> None:
    environment.add("one", headers="\n".join(OSI + classifier for classifier in classifiers))
    assert said(from_classifiers(environment.open("one==1.0"))) == value


def test_the_text_of_the_gpl_does_not_say_only_or_or_later(environment: Any, gpl: str) -> None:
    environment.add(
        "unidecode",
        headers=f"License: GPL\n{OSI}GNU General Public License v2 or later (GPLv2+)",
        texts={"LICENSE": gpl},
    )
    assert said(from_texts(environment.open("unidecode==1.0"))) == {"kind": "vague", "family": "GPL-2.0"}
    assert environment.judge("unidecode==1.0").licence == "GPL-2.0-or-later"


def test_a_field_that_holds_a_whole_licence_is_identified_like_a_text(environment: Any, apache: str) -> None:
    folded = apache.replace("\n", "\n        ")
    environment.add("one", headers=f"License: {folded}")
    assert said(from_field(environment.open("one==1.0"))) == {"kind": "expression", "expression": "Apache-2.0"}


def test_a_field_of_64419_characters_stays_a_small_value(environment: Any) -> None:
    text = (
        "License agreement for plots. You may plot and replot, PROVIDED that the plots are labelled.\n        " * 700
    )[:64_419]
    environment.add("matplotlib", headers=f"License: {text}")
    value = from_field(environment.open("matplotlib==1.0"))
    assert value.kind == "unidentified"
    assert len(value.texts) == 1
    assert len(value.model_dump_json()) < 500


def test_a_text_that_nobody_knows_is_a_digest(environment: Any) -> None:
    environment.add("one", texts={"LICENSE": "You may use this on Tuesdays."})
    value = from_texts(environment.open("one==1.0"))
    assert (value.kind, [len(text) for text in value.texts]) == ("unidentified", [64])


def test_a_text_that_points_at_the_others_says_that_one_may_choose(environment: Any, mit: str, apache: str) -> None:
    pointer = "This software is made available under *either* of the licenses found in LICENSE.APACHE2 or LICENSE.MIT."
    environment.add("sniffio", texts={"LICENSE": pointer, "LICENSE.MIT": mit, "LICENSE.APACHE2": apache})
    assert said(from_texts(environment.open("sniffio==1.0"))) == {
        "kind": "expression",
        "expression": "Apache-2.0 OR MIT",
    }


@pytest.mark.parametrize(
    "path",
    [
        "LICENSE_geos",
        "vendor/geos/LICENSE",
        "src/lib/_vendor/geos/COPYING",
        "numpy/random/LICENSE.md",
        "/shapely/lib/LICENSE",
        "/shapely/third_party/geos/LICENSE.txt",
    ],
)
def test_a_text_further_down_or_named_for_others_is_bundled(environment: Any, bsd: str, mit: str, path: str) -> None:
    environment.add("shapely", texts={"LICENSE.txt": bsd, path: mit})
    assert said(from_texts(environment.open("shapely==1.0"))) == {
        "kind": "expression",
        "expression": "BSD-3-Clause",
        "bundled": ["MIT"],
    }


@pytest.mark.parametrize("path", ["LICENSE-MIT", "LICENSE.MIT", "COPYING.MIT.txt", "LICENSES/MIT.txt"])
def test_a_text_named_for_its_licence_is_the_distributions_own(environment: Any, bsd: str, mit: str, path: str) -> None:
    environment.add("one", texts={"LICENSE": bsd, path: mit})
    assert said(from_texts(environment.open("one==1.0"))) == {
        "kind": "expression",
        "expression": "BSD-3-Clause AND MIT",
    }


def test_parts_of_a_text_that_it_says_are_others_code_are_bundled(environment: Any, bsd: str, mit: str) -> None:
    both = f"{bsd}\n----\nThis binary distribution also bundles the following software:\n\n{mit}"
    environment.add("one", texts={"LICENSE": both})
    assert said(from_texts(environment.open("one==1.0")))["bundled"] == ["MIT"]


def test_a_part_is_what_its_heading_states(environment: Any, bsd: str, gpl: str) -> None:
    runtime = "also bundles:\n\nName: GCC runtime library\nLicense: GPL-3.0-or-later WITH GCC-exception-3.1\n\n"
    environment.add("one", texts={"LICENSE": f"{bsd}\n{runtime}{gpl}"})
    assert said(from_texts(environment.open("one==1.0")))["bundled"] == ["GPL-3.0-or-later WITH GCC-exception-3.1"]


def test_files_outside_of_the_environment_are_not_read(environment: Any, mit: str) -> None:
    (environment.site.parent.parent.parent.parent / "LICENSE").write_text(mit)
    folder = environment.add("one", headers="License-File: ../../../../../LICENSE")
    (folder / "RECORD").write_text("../../../../LICENSE,,\n")
    assert said(from_texts(environment.open("one==1.0"))) == {"kind": "absent"}


def test_what_could_not_be_compared_is_no_evidence() -> None:
    with pytest.raises(ValueError, match=r"write 'Apache-2\.0 AND MIT'"):
        Evidence(kind="expression", expression="MIT AND Apache-2.0")
    with pytest.raises(ValueError, match="needs kind"):
        Evidence(kind="absent", expression="MIT")
