"""The catalogue as it stood below a sequence."""

import json
from typing import Any

from schemas.catalogue import Catalogue
from schemas.subjects import Address


def contract(*offers: str, **fields: Any) -> dict[str, Any]:
    return {"offers": offers, **fields}


def filled(*rows: tuple[int, str, str, dict[str, Any]]) -> Catalogue:
    catalogue = Catalogue()
    for seq, family, name, body in rows:
        assert add(catalogue, seq, family, name, body) is None
    return catalogue


def add(catalogue: Catalogue, seq: int, family: str, name: str, body: dict[str, Any]) -> str | None:
    author = {"specialist": name} if family == "contract" else {"team": name}
    return catalogue.add(seq, Address(family, name, ""), json.dumps(author | body).encode())


def test_below_a_sequence_and_not_at_it() -> None:
    catalogue = filled((3, "contract", "w", contract("a")), (9, "contract", "w", contract("b")))
    found = [catalogue.below(seq).contract("w") for seq in (3, 4, 9, 10, 99)]
    assert [one[0] if one else None for one in found] == [None, 3, 3, 9, 9]
    assert [name for name, _, _ in catalogue.below(9).offering("a")] == ["w"]
    assert catalogue.below(10).offering("a") == []


def test_offering_by_name_and_not_by_arrival() -> None:
    catalogue = filled(*((seq, "contract", name, contract("a", "b")) for seq, name in enumerate("wvu", 1)))
    assert [(name, seq) for name, seq, _ in catalogue.below(9).offering("a")] == [("u", 3), ("v", 2), ("w", 1)]


def test_withdrawn_is_not_in_force_and_can_still_be_looked_up() -> None:
    catalogue = filled((1, "contract", "w", contract("a")), (2, "contract", "w", contract()))
    view = catalogue.below(5)
    assert view.contract("w") is None
    assert view.offering("a") == []
    assert view.contracts() == []
    assert view.contract_at(1) is not None
    assert catalogue.below(2).contract("w") is not None


def test_invalid_artefact_is_passed_over_with_its_reason() -> None:
    catalogue = filled((1, "playbook", "t", {"steps": [{"id": "a", "capability": "x"}]}))
    assert add(catalogue, 2, "playbook", "t", {"steps": []}) == "steps: is not allowed (too_short)"
    assert add(catalogue, 2, "playbook", "t", {"steps": []}) == "steps: is not allowed (too_short)"
    assert [found[0] for found in [catalogue.below(9).playbook("t")] if found] == [1]


def test_what_was_added_is_not_added_again() -> None:
    catalogue = filled((1, "contract", "w", contract("a")))
    assert add(catalogue, 1, "contract", "w", contract("b")) is None
    assert [name for name, _, _ in catalogue.below(9).offering("a")] == ["w"]


def test_team_and_specialist_of_one_name() -> None:
    catalogue = filled((1, "contract", "x", contract("a")), (2, "playbook", "x", {"steps": [{"id": "a", "team": "x"}]}))
    view = catalogue.below(9)
    assert view.contract_at(2) is None
    assert view.playbook_at(1) is None
    assert (view.contract("x") or (0,))[0] == 1
    assert (view.playbook("x") or (0,))[0] == 2
    assert [playbook.team for playbook in view.teams()] == ["x"]
