"""One more observer for the licence audit: what the long description of a distribution says.

blackboard try ./examples/readme_observer.py:from_readme path=$PWD/.venv name=jsonschema-rs version=0.61.2
blackboard attach ./examples/readme_observer.py:from_readme
"""

from importlib.metadata import Distribution

from specialists.licences.evidence import Evidence
from specialists.licences.team import Installed
from specialists.specialist import Stop, specialist


@specialist("from-readme", offers="licence-evidence", deadline_s=10)
async def from_readme(item: Installed) -> Evidence:
    """The licence that the long description names."""
    about = Distribution.at(item.open().folder).metadata
    if "MIT License" not in str(about.get_payload()):
        raise Stop("LOW_CONFIDENCE", "the description names no licence")
    return Evidence(kind="expression", expression="MIT")
