"""A template with a mistake is refused when the configuration is read."""

from __future__ import annotations

from pathlib import Path

import pytest

from tamis.config.pipeline import PipelineConfig
from tamis.config.templates import ALONE, TOGETHER, Templates, sample
from tamis.errors import ConfigError


def templates(folder: Path, **files: str) -> Templates:
    for name, text in files.items():
        (folder / name.replace("_", ".", 1)).write_text(text)
    return Templates(folder)


def given(folder: Path, text: str, name: str = "mail.txt", many: bool = True) -> str:
    (folder / name).write_text(text)
    return Templates(folder).render(name, sample(name, many=many))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a\n{{ subject ", "line 2: unexpected end of template"),
        ("a\n{% if %}", "line 2: Expected an expression"),
        ("a\n\n{{ subjekt }}", "line 3: unknown name 'subjekt'; did you mean 'subject'?"),
        ("{% if topic == 'never' %}\n{{ nobody }}{% endif %}", "line 2: unknown name 'nobody'"),
        ("a\n{{ query.kee }}", "line 2: unknown name 'kee'; did you mean 'key'?; known: key, version, text, language"),
        ("a\n{{ subject | center(9) }}", "line 2: No filter named 'center'"),
        ("a\n{{ message.size / 0 }}", "line 2: division by zero"),
        ("a\n{% include 'nowhere.txt' %}", "line 2: 'nowhere.txt' not found"),
        ("{{ 'x' * 1000000000 }}", "line 1: '*' works on numbers only"),
        ("{{ 9 ** 9 ** 9 ** 9 }}", "line 1: '*' works on numbers only, and '**' is refused"),
        ("{% for i in range(1000000) %}{% endfor %}", "line 1: Range too big"),
        ("{% for i in range(99999) %}xxxxxxxxxxx{% endfor %}", "more than 1,000,000 characters"),
        ("{{ subject.__class__.__mro__ }}", "line 1: access to attribute '__class__'"),
        ("{{ self.__init__.__globals__ }}", "is unsafe"),
    ],
)
def test_a_mistake_is_told_with_file_and_line(tmp_path: Path, text: str, expected: str) -> None:
    with pytest.raises(ConfigError) as told:
        templates(tmp_path, mail_txt=text)
    assert str(told.value).startswith(str(tmp_path / "mail.txt"))
    assert expected in str(told.value)


def test_a_mistake_in_an_included_file_is_told_with_that_file(tmp_path: Path) -> None:
    (tmp_path / "part.txt").write_text("\n{{ query.kee }}")
    with pytest.raises(ConfigError, match=r"part.txt, line 2: unknown name 'kee'"):
        templates(tmp_path, mail_txt="{% include 'part.txt' %}")


def test_a_template_reads_no_file_outside_its_folder(tmp_path: Path) -> None:
    (tmp_path / "secret.txt").write_text("secret")
    (tmp_path / "in").mkdir()
    with pytest.raises(ConfigError, match="secret.txt"):
        templates(tmp_path / "in", mail_txt="{% include '../secret.txt' %}")


def test_a_digest_does_not_see_what_one_notification_has(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="unknown name 'subject'; known: count, counts, notifications, owner"):
        given(tmp_path, "{{ subject }}", "digest.txt")


def test_a_webhook_gives_json(tmp_path: Path) -> None:
    assert given(tmp_path, '{"text": {{ subject | tojson }}}', "webhook.json") == '{"text": "Garden & <frost>"}'
    with pytest.raises(ConfigError, match=r"webhook.json: expected JSON: write each value as"):
        given(tmp_path, '{"text": {{ subject }}}', "webhook.json")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("{{ message.date }}", "Mon 23 Nov 2026, 13:30 CET"),
        ("{{ message.date | date('%d.%m.%Y') }}", "23.11.2026"),
        ("{{ message.to }}, {{ (message.size or 0) * 2 }}", "ann@example.org, 14"),
        ("{{ message.nowhere.at_all }}{{ message.items }}", ""),
        ("{{ subject }}", "Garden & <frost>"),
        ("{% for it in excerpts %}\n> {{ it }}\n{% endfor %}", "> Cover the *garlic*\n> the *frost*\n"),
    ],
)
def test_values_are_written_as_people_write_them(tmp_path: Path, text: str, expected: str) -> None:
    assert given(tmp_path, text) == expected


def test_html_is_escaped_and_text_is_not(tmp_path: Path) -> None:
    assert given(tmp_path, "{{ subject }}", "mail.html") == "Garden &amp; &lt;frost&gt;"
    assert given(tmp_path, "{{ subject }}", "mail.txt") == "Garden & <frost>"


def test_a_folder_without_a_template_is_a_mistake(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="no template: expected some of subject.txt, mail.txt"):
        Templates(tmp_path)


def test_every_name_has_samples() -> None:
    for name in (*ALONE, *TOGETHER):
        assert sample(name, many=True).keys() == sample(name, many=False).keys()


def test_the_line_of_the_pipeline_is_told_too(tmp_path: Path) -> None:
    (tmp_path / "words").mkdir()
    (tmp_path / "words" / "mail.txt").write_text("{{ subjekt }}")
    text = '[[delivery]]\nname = "a"\ntype = "eml"\nfolder = "out"\ntemplates = "words"\n'
    (tmp_path / "pipeline.toml").write_text(text + '[[owner]]\nname = "ann"\ntemplates = "nowhere"\n')
    with pytest.raises(ConfigError) as told:
        PipelineConfig.load(tmp_path / "pipeline.toml")
    first, second = str(told.value).splitlines()
    assert "pipeline.toml, line 5: " in first
    assert "mail.txt, line 1: unknown name 'subjekt'" in first
    assert "pipeline.toml, line 8: " in second
    assert "nowhere: no template" in second
