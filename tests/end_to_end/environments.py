"""Environments for the licence audit, made of metadata folders alone, as varied as those that people have."""

from pathlib import Path

CLASSIFIER = "License :: OSI Approved :: "
MIT_TEXT = """MIT License

Copyright (c) 2024 {name} authors

Permission is hereby granted, free of charge, to any person obtaining a copy of this software and associated
documentation files (the "Software"), to deal in the Software without restriction, including without limitation the
rights to use, copy, modify, merge, publish, distribute, sublicense, and/or sell copies of the Software, and to permit
persons to whom the Software is furnished to do so, subject to the following conditions:

The above copyright notice and this permission notice shall be included in all copies or substantial portions of the
Software.

THE SOFTWARE IS PROVIDED "AS IS", WITHOUT WARRANTY OF ANY KIND, EXPRESS OR IMPLIED, INCLUDING BUT NOT LIMITED TO THE
WARRANTIES OF MERCHANTABILITY, FITNESS FOR A PARTICULAR PURPOSE AND NONINFRINGEMENT. IN NO EVENT SHALL THE AUTHORS OR
COPYRIGHT HOLDERS BE LIABLE FOR ANY CLAIM, DAMAGES OR OTHER LIABILITY, WHETHER IN AN ACTION OF CONTRACT, TORT OR
OTHERWISE, ARISING FROM, OUT OF OR IN CONNECTION WITH THE SOFTWARE OR THE USE OR OTHER DEALINGS IN THE SOFTWARE.
"""

KINDS = [
    (["License-Expression: MIT", "License-File: LICENSE"], MIT_TEXT),
    ([f"Classifier: {CLASSIFIER}BSD License", "License: BSD-3-Clause"], ""),
    ([f"Classifier: {CLASSIFIER}Apache Software License"], ""),
    (["License: MIT", f"Classifier: {CLASSIFIER}MIT License", f"Classifier: {CLASSIFIER}Apache Software License"], ""),
    (["License: see the file LICENSE"], "All rights reserved by {name}. Nobody knows what this text allows."),
    (["License-Expression: Apache-2.0 OR (MIT AND BSD-3-Clause)"], ""),
    ([f"Classifier: {CLASSIFIER}GNU General Public License v3 (GPLv3)", "License: MIT"], MIT_TEXT),
    ([], ""),
    (["License-Expression: LicenseRef-{name}-Proprietary"], ""),
    (["License: GPL-2.0-or-later WITH Classpath-exception-2.0"], ""),
]
"""(headers, licence text) of each kind, with `{name}` for the name."""


def make_environment(folder: Path, distributions: int) -> Path:
    """An environment with that many distributions, of all kinds in turn."""
    packages = folder / "lib" / "python3.11" / "site-packages"
    for number in range(distributions):
        headers, text = KINDS[number % len(KINDS)]
        name = f"package-{number:04}"
        metadata = packages / f"{name.replace('-', '_')}-1.{number}.dist-info"
        metadata.mkdir(parents=True)
        lines = ["Metadata-Version: 2.4", f"Name: {name}", f"Version: 1.{number}", *headers]
        (metadata / "METADATA").write_text("\n".join(lines).replace("{name}", name) + "\n\nA package.\n")
        if text:
            (metadata / "LICENSE").write_text(text.replace("{name}", name))
            (metadata / "RECORD").write_text(f"{metadata.name}/LICENSE,,\n{metadata.name}/METADATA,,\n")
    return folder
