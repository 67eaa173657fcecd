"""Inventory: the oddities that real environments hold."""

import json
import os
from pathlib import Path
from typing import Any

import pytest

from specialists.licences.distribution import name_token
from specialists.licences.inventory import Inventory, InventoryError, scan


def problems(inventory: Inventory) -> list[str]:
    return [problem.problem for problem in inventory.problems]


def test_names_are_normalised_and_sorted(environment: Any) -> None:
    environment.add("zope.interface", "8.0")
    environment.add("Flask_Thing", "1.0.post1")
    assert scan(environment.path).distributions == ["flask-thing==1.0.post1", "zope-interface==8.0"]


@pytest.mark.parametrize("inside", ["", "lib/python3.11/site-packages"])
def test_a_root_and_its_site_packages_hold_the_same(environment: Any, inside: str) -> None:
    environment.add("one")
    path = os.path.join(environment.path, inside)
    assert scan(path).distributions == ["one==1.0"]
    assert scan(path).path == os.path.abspath(path)


def test_lib64_as_a_link_is_not_read_twice(environment: Any) -> None:
    environment.add("one")
    (Path(environment.path) / "lib64").symlink_to("lib")
    inventory = scan(environment.path)
    assert (inventory.distributions, inventory.problems) == (["one==1.0"], [])


def test_lib64_as_a_folder_of_its_own_is_read_too(environment: Any) -> None:
    environment.add("one")
    environment.add("two", site=Path(environment.path) / "lib64" / "python3.11" / "site-packages")
    assert scan(environment.path).distributions == ["one==1.0", "two==1.0"]


def test_the_first_of_two_wins_and_the_shadowed_one_is_named(environment: Any) -> None:
    environment.add("some-lib", "1.0")
    environment.add("Some_Lib", "2.0", site=Path(environment.path) / "lib64" / "python3.11" / "site-packages")
    inventory = scan(environment.path)
    assert inventory.distributions == ["some-lib==1.0"]
    assert "Some_Lib-2.0" in inventory.problems[0].where
    assert "shadowed" in inventory.problems[0].problem


def test_an_editable_install_is_fine(environment: Any) -> None:
    folder = environment.add("mine")
    (folder / "direct_url.json").write_text('{"url": "file:///src/mine", "dir_info": {"editable": true}}')
    assert scan(environment.path).problems == []
    assert environment.open("mine==1.0").editable


def test_metadata_that_is_missing_or_unreadable_is_a_problem(environment: Any) -> None:
    environment.add("good")
    (environment.site / "gone-1.0.dist-info").mkdir()
    (environment.site / "link-1.0.dist-info").mkdir()
    (environment.site / "link-1.0.dist-info" / "METADATA").symlink_to("nowhere")
    (environment.site / "folder-1.0.dist-info" / "METADATA").mkdir(parents=True)
    (environment.site / "nameless-1.0.dist-info").mkdir()
    (environment.site / "nameless-1.0.dist-info" / "METADATA").write_text("Summary: nothing else\n")
    inventory = scan(environment.path)
    assert inventory.distributions == ["good==1.0"]
    assert [Path(problem.where).name.partition("-")[0] for problem in inventory.problems] == [
        "folder",
        "gone",
        "link",
        "nameless",
    ]
    assert ["not readable" in text for text in problems(inventory)] == [True, False, True, False]


def test_latin_1_is_decoded_and_noted(environment: Any) -> None:
    folder = environment.add("old")
    (folder / "METADATA").write_bytes("Name: old\nVersion: 1.0\nAuthor: Åse\nLicense: MIT\n".encode("latin-1"))
    assert problems(scan(environment.path)) == ["METADATA is not UTF-8; read as Latin-1"]
    assert environment.open("old==1.0").license == "MIT"


def test_egg_info_counts_as_a_folder_and_as_a_file(environment: Any) -> None:
    (environment.site / "folder.egg-info").mkdir()
    (environment.site / "folder.egg-info" / "PKG-INFO").write_text("Name: folder\nVersion: 1\n")
    (environment.site / "single-2.egg-info").write_text("Name: single\nVersion: 2\nLicense: MIT\n")
    assert scan(environment.path).distributions == ["folder==1", "single==2"]
    assert environment.open("single==2").license == "MIT"


def test_vendored_metadata_is_not_a_distribution(environment: Any, audit: Any, mit: str) -> None:
    vendored = environment.site / "setuptools" / "_vendor"
    environment.add("setuptools", "65.5.0", "Classifier: License :: OSI Approved :: MIT License", {"LICENSE": mit})
    environment.add("more_itertools", "10.3.0", site=vendored)
    assert scan(environment.path).distributions == ["setuptools==65.5.0"]


def test_a_long_name_is_cut_and_stays_different_from_others() -> None:
    one, other = name_token("a" * 100), name_token("a" * 99)
    assert one != other
    assert {len(one), len(other)} == {64}
    assert name_token("Zope.Interface") == "zope-interface"


def test_1500_distributions_with_problems_fit_into_a_value(environment: Any) -> None:
    for number in range(1_500):
        environment.add(f"of-usual-length-{number}", "1.2.3")
    for number in range(150):
        (environment.site / f"broken-{number}.dist-info").mkdir()
    inventory = scan(environment.path)
    assert len(inventory.distributions) == 1_500
    assert inventory.problem_count == 150
    assert 0 < len(inventory.problems) <= 100
    assert len(json.dumps(inventory.model_dump())) < 64 * 1024


def test_what_cannot_be_read_says_what_to_do(environment: Any, tmp_path: Path) -> None:
    with pytest.raises(InventoryError, match="give a virtual environment"):
        scan(str(tmp_path / "nowhere"))
    with pytest.raises(InventoryError, match="holds no distributions"):
        scan(str(tmp_path))
    environment.add("one")
    with pytest.raises(InventoryError, match="scan the environment again"):
        environment.open("one==2.0")


def test_a_change_of_the_environment_is_seen(environment: Any) -> None:
    environment.add("one")
    assert scan(environment.path).distributions == ["one==1.0"]
    environment.add("two")
    assert scan(environment.path).distributions == ["one==1.0", "two==1.0"]
