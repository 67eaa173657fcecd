"""What is read of a folder, and what is passed over, and why."""

import io
import os
from pathlib import Path

import pypdf
import pytest

from specialists.research import documents
from specialists.research.documents import NothingToRead, Unread, listing, read, shown
from tests.research.conftest import Folder


def names(root: Path) -> list[str]:
    return [file.name for file in listing(str(root)).files]


def text_of(root: Path, name: str) -> str:
    return read(next(file for file in listing(str(root)).files if file.name == name))


def pdf(text: str) -> bytes:
    """A PDF of one page that says `text`."""
    content = f"BT /F1 12 Tf 72 720 Td ({text}) Tj ET".encode()
    parts = [
        b"<< /Type /Catalog /Pages 2 0 R >>",
        b"<< /Type /Pages /Kids [3 0 R] /Count 1 >>",
        b"<< /Type /Page /Parent 2 0 R /Contents 4 0 R /MediaBox [0 0 612 792] "
        b"/Resources << /Font << /F1 << /Type /Font /Subtype /Type1 /BaseFont /Helvetica >> >> >> >>",
        b"<< /Length %d >>\nstream\n%s\nendstream" % (len(content), content),
    ]
    made, places = b"%PDF-1.4\n", []
    for number, part in enumerate(parts, 1):
        places.append(len(made))
        made += b"%d 0 obj\n%s\nendobj\n" % (number, part)
    start = len(made)
    table = b"".join(b"%010d 00000 n \n" % place for place in places)
    made += b"xref\n0 5\n0000000000 65535 f \n" + table
    return made + b"trailer << /Size 5 /Root 1 0 R >>\nstartxref\n%d\n%%%%EOF\n" % start


def locked(data: bytes) -> bytes:
    writer = pypdf.PdfWriter(clone_from=io.BytesIO(data))
    writer.encrypt("secret", algorithm="RC4-128")
    made = io.BytesIO()
    writer.write(made)
    return made.getvalue()


def test_hidden_and_ignored_files_are_not_there(folder: Folder) -> None:
    root = folder(
        {
            "a.md": "x",
            ".hidden.md": "x",
            ".git/config": "x",
            ".gitignore": "*.log\nbuild/\n!keep.log\n[\n/only-here.txt\n",
            "b.log": "x",
            "keep.log": "x",
            "build/c.md": "x",
            "only-here.txt": "x",
            "sub/only-here.txt": "x",
            "sub/.gitignore": "!b.log\nd.md",
            "sub/b.log": "x",
            "sub/d.md": "x",
            "d.md": "x",
        }
    )
    assert names(root) == ["a.md", "d.md", "keep.log", "sub/b.log", "sub/only-here.txt"]


def test_rules_of_the_repository_around_hold(folder: Folder) -> None:
    root = folder({".git/HEAD": "x", ".gitignore": "docs/*.tmp", "docs/a.tmp": "x", "docs/a.md": "x"})
    assert names(root / "docs") == ["a.md"]


def test_links_pipes_and_what_is_too_large_are_passed_over(folder: Folder, monkeypatch: pytest.MonkeyPatch) -> None:
    root = folder({"a.md": "x", "large.txt": "x" * 2_000})
    (root / "link.md").symlink_to(root / "a.md")
    (root / "nowhere.md").symlink_to(root / "gone")
    os.mkfifo(root / "pipe")
    monkeypatch.setattr(documents, "FILE_BYTES", 1_000)
    found = listing(str(root))
    assert [file.name for file in found.files] == ["a.md"]
    assert found.passed == {
        "over 0 MiB": ["large.txt"],
        "a symbolic link": ["link.md", "nowhere.md"],
        "no regular file": ["pipe"],
    }


def test_a_folder_has_limits(folder: Folder, monkeypatch: pytest.MonkeyPatch) -> None:
    root = folder({f"{number}.md": "x" * 10 for number in range(6)})
    monkeypatch.setattr(documents, "FILES_LIMIT", 4)
    monkeypatch.setattr(documents, "TOTAL_BYTES", 35)
    found = listing(str(root))
    assert ([file.name for file in found.files], len(found.passed["beyond the limits of one folder"])) == (
        ["0.md", "1.md", "2.md"],
        3,
    )


@pytest.mark.parametrize(
    ("data", "text"),
    [
        ("größer ☃".encode(), "größer ☃"),
        (b"\xef\xbb\xbfmarked", "marked"),
        ("größer".encode("utf-16"), "größer"),
        ("größer".encode("utf-32"), "größer"),
        (
            "Die Größe der Häuser überrascht viele Gäste, schöne Grüße.".encode("latin-1"),
            "Die Größe der Häuser überrascht viele Gäste, schöne Grüße.",
        ),
        (b"one\r\ntwo\rthree\n", "one\ntwo\nthree\n"),
        (b"", ""),
    ],
)
def test_texts_in_any_encoding(folder: Folder, data: bytes, text: str) -> None:
    assert text_of(folder({"a.txt": data}), "a.txt") == text


@pytest.mark.parametrize(
    ("name", "data", "why"),
    [
        ("a.png", b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR", "binary"),
        ("a.md", b"text\0text", "binary"),
        ("a.pdf", b"%PDF-1.4\ngarbage", "a damaged PDF"),
        ("a.pdf", locked(pdf("hello")), "a PDF with a password"),
    ],
)
def test_what_is_no_text(folder: Folder, name: str, data: bytes, why: str) -> None:
    with pytest.raises(Unread, match=f"^{why}$"):
        text_of(folder({name: data}), name)


def test_a_file_that_is_gone_is_unreadable(folder: Folder) -> None:
    root = folder({"a.md": "x"})
    (file,) = listing(str(root)).files
    file.path.unlink()
    with pytest.raises(Unread, match=r"^unreadable \(No such file or directory\)$"):
        read(file)


def test_a_pdf_is_read_by_its_text(folder: Folder) -> None:
    assert text_of(folder({"a.pdf": pdf("A lease lasts nine days")}), "a.pdf").strip() == "A lease lasts nine days"


def test_html_keeps_the_lines_of_its_source(folder: Folder) -> None:
    page = "<html><head><title>t</title></head>\n<body>\n<p>One &amp; <b>two</b></p><p>three</p>\n"
    page += "<script>\nno();\n</script>\n<td>four</td></body>"
    assert text_of(folder({"a.html": page}), "a.html").split("\n") == ["", "", "One & two three", "", "", "", "four"]


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (lambda root: root / "gone", "there is no folder"),
        (lambda root: root / "a.md", "is a file; name the folder that it is in"),
        (lambda root: "a\0b", r"there is no folder 'a\\x00b'"),
        (lambda root: root / ("x" * 300), "cannot be read: File name too long"),
    ],
)
def test_what_is_no_folder(folder: Folder, make, says: str) -> None:  # type: ignore[no-untyped-def]
    with pytest.raises(NothingToRead, match=says):
        listing(str(make(folder({"a.md": "x"}))))


def test_names_are_shown_as_utf_8_without_control_characters() -> None:
    assert shown(Path(os.fsdecode(b"a\xff\n\x1b.md"))) == "a\\xff??.md"
