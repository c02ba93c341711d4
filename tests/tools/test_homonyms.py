"""Type names with two meanings are counted."""

from __future__ import annotations

from pathlib import Path

from tools.homonyms import homonyms, main

A = """\
pub struct Entry;
enum Shape { Round }
impl Iterator for Entry {
    type Item = u8;
}
pub(crate) type Short = u8;
// struct Remark;
#[cfg(test)]
mod tests {
    struct Model;
}
"""
B = """\
pub(super) struct Entry<T>(T);
trait Shape {
    type Item;
}
type Short = u16;
struct Remark;
struct Model;
"""


def test_names_that_two_files_declare_are_found(tmp_path: Path) -> None:
    for crate, text in {"a": A, "b": B}.items():
        (tmp_path / crate / "src").mkdir(parents=True)
        (tmp_path / crate / "Cargo.toml").write_text("[package]")
        (tmp_path / crate / "src" / "lib.rs").write_text(text)
    assert list(homonyms(tmp_path)) == ["Entry", "Shape", "Short"]
    assert main(tmp_path) == 0


def test_too_many_of_them_are_refused(tmp_path: Path) -> None:
    (tmp_path / "Cargo.toml").write_text("[package]")
    for name in "ab":
        (tmp_path / f"{name}.rs").write_text("".join(f"struct Name{number};\n" for number in range(11)))
    assert main(tmp_path) == 1


def test_classes_of_python_count_by_themselves(tmp_path: Path) -> None:
    (tmp_path / "Cargo.toml").write_text("[package]")
    (tmp_path / "entry.rs").write_text("struct Entry;\n")
    for folder in ("python", "benchmarks"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "one.py").write_text("class Entry:\n    class Inner: ...\n\nclass Short: ...\n")
    assert list(homonyms(tmp_path)) == ["Entry", "Short"]
    (tmp_path / "benchmarks" / "one.py").write_text("class Other: ...\n")
    assert not homonyms(tmp_path)
