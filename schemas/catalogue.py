"""The catalogue: contracts and playbooks as they stood below a given sequence.

Pure. A fold of `contract.>` and `playbook.>`, looked up *by sequence*, so that an input that is decided again sees what
it saw the first time, however much was read since.
"""

from bisect import bisect_left
from collections.abc import Iterator, Mapping
from typing import Any

from schemas.contracts import Contract, read_contract
from schemas.goals import Artefact
from schemas.playbooks import Playbook, read_playbook
from schemas.subjects import Address


class Catalogue:
    """All versions of all artefacts that were added, in order of sequence. `policies` are the merge policies that are
    installed here beside the built-in ones, by name and version; they are code, so they do not stand on the log."""

    def __init__(self, policies: Mapping[tuple[str, int], Any] | None = None) -> None:
        self.policies = dict(policies or {})
        self._versions: dict[tuple[str, str], list[tuple[int, Artefact]]] = {}
        self._by_seq: dict[int, Artefact] = {}

    def add(self, seq: int, address: Address, data: bytes) -> str | None:
        """Fold one message of the catalogue; the reason when it is not valid and therefore passed over."""
        if seq in self._by_seq:
            return None
        read = read_contract if address.family == "contract" else read_playbook
        artefact = read(data, address.author)
        if isinstance(artefact, str):
            return artefact
        self._by_seq[seq] = artefact
        self._versions.setdefault((address.family, address.author), []).append((seq, artefact))
        return None

    def below(self, seq: int) -> "View":
        return View(self, seq)

    def latest(self, family: str, name: str, below: int) -> tuple[int, Artefact] | None:
        versions = self._versions.get((family, name), [])
        found = bisect_left(versions, below, key=lambda version: version[0])
        return versions[found - 1] if found else None

    def at(self, seq: int) -> Artefact | None:
        return self._by_seq.get(seq)

    def names(self, family: str) -> Iterator[str]:
        """In alphabetical order."""
        return (name for kind, name in sorted(self._versions) if kind == family)


class View:
    """The catalogue below one sequence. Sequences are those of the messages on the log; 0 is none."""

    def __init__(self, catalogue: Catalogue, below: int) -> None:
        self._catalogue, self._below = catalogue, below

    def contract(self, specialist: str) -> tuple[int, Contract] | None:
        """The contract in force of a specialist that is not withdrawn, with its sequence."""
        found = self._catalogue.latest("contract", specialist, self._below)
        if found is None or not isinstance(found[1], Contract) or not found[1].offers:
            return None
        return found[0], found[1]

    def contract_at(self, seq: int) -> Contract | None:
        artefact = self._catalogue.at(seq)
        return artefact if isinstance(artefact, Contract) else None

    def playbook(self, team: str) -> tuple[int, Playbook] | None:
        found = self._catalogue.latest("playbook", team, self._below)
        return (found[0], found[1]) if found and isinstance(found[1], Playbook) else None

    def playbook_at(self, seq: int) -> Playbook | None:
        artefact = self._catalogue.at(seq)
        return artefact if isinstance(artefact, Playbook) else None

    def offering(self, capability: str) -> list[tuple[str, int, Contract]]:
        """(specialist, sequence, contract) of everyone who offers `capability`, by name."""
        found = ((name, self.contract(name)) for name in self._catalogue.names("contract"))
        return [
            (name, in_force[0], in_force[1])
            for name, in_force in found
            if in_force and capability in in_force[1].offers
        ]

    def policy(self, name: str, version: int) -> Any | None:
        """The installed merge policy; None where this process has none of that name and version."""
        return self._catalogue.policies.get((name, version))

    def teams(self) -> list[Playbook]:
        found = (self.playbook(name) for name in self._catalogue.names("playbook"))
        return [in_force[1] for in_force in found if in_force]

    def contracts(self) -> list[Contract]:
        found = (self.contract(name) for name in self._catalogue.names("contract"))
        return [in_force[1] for in_force in found if in_force]
