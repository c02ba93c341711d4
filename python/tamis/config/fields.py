"""Defines the types of values that the sections of pipeline.toml share, and what each type expects."""

from __future__ import annotations

from email.utils import parseaddr
from pathlib import Path
from typing import Annotated

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, InstanceOf, ValidationInfo

from tamis.config.templates import checked_folder
from tamis.errors import StoreError
from tamis.store_place import PasswordInUrlError, Place, ServerUrl, place_of


def _relative_to_file(path: Path, info: ValidationInfo) -> Path:
    folder = (info.context or {}).get("folder", Path())
    return Path(folder) / path.expanduser()


def _address(value: object, info: ValidationInfo) -> Place:
    """Return the address of a store or database; a path is relative to the file.

    Raises:
        StoreError: it is not an address, or names another kind of database.
    """
    if not isinstance(value, str | Path | ServerUrl):
        raise StoreError(f"expected a path or a URL, not {value!r}")
    place = place_of(value)
    return place if isinstance(place, ServerUrl) else _relative_to_file(place, info)


def _store(value: object, info: ValidationInfo) -> Place:
    try:
        return _address(value, info)
    except StoreError as error:
        raise ValueError(f"store: {error}") from error


def _database(value: object, info: ValidationInfo) -> Place:
    try:
        return _address(value, info)
    except PasswordInUrlError as error:
        raise ValueError("the password must not be in the file: name its variable in password_env") from error
    except StoreError as error:
        raise ValueError(str(error)) from error


def address_of(recipient: str) -> str:
    """Return the address in a recipient such as ``Ann <ann@example.org>``."""
    return parseaddr(recipient)[1] or recipient


def _mail_address(text: str) -> str:
    address = address_of(text)
    if not address.isascii():
        raise ValueError(f"expected an address in ASCII, such as ann@example.org, not '{address}'")
    return text


_NAME, _LINE, _DOMAIN = r"^[A-Za-z0-9][A-Za-z0-9_.-]*$", r"^[^\r\n\x00]+$", r"^[A-Za-z0-9.-]+$"
_CLOCK, _QUIET = r"^([01]\d|2[0-3]):[0-5]\d$", r"^([01]\d|2[0-3]):[0-5]\d-([01]\d|2[0-3]):[0-5]\d$"
_TABLE = r"^[A-Za-z_][A-Za-z0-9_]*(\.[A-Za-z_][A-Za-z0-9_]*)?$"
PATTERNS = {
    _TABLE: "the name of a table, as 'name' or 'schema.name', of letters, digits and '_'",
    _NAME: "letters, digits, '_', '.' and '-', beginning with a letter or digit",
    _LINE: "text on one line",
    _CLOCK: "a time as 08:00",
    _QUIET: "two times as 22:00-07:00",
    _DOMAIN: "a domain's letters, digits, '.' and '-'",
}
"""Regular expression of a field -> what it expects, in words."""

Name = Annotated[str, Field(pattern=_NAME, max_length=100)]
Count = Annotated[int, Field(strict=True, gt=0)]
Milliseconds = Annotated[int, Field(strict=True, gt=0, le=86_400_000)]
CountOrZero = Annotated[int, Field(strict=True, ge=0, le=1_000_000_000)]
Days = Annotated[int, Field(strict=True, gt=0, le=36_500)]
Seconds = Annotated[float, Field(strict=True, gt=0, le=31_536_000)]
Port = Annotated[int, Field(strict=True, gt=0, le=65_535)]
Clock = Annotated[str, Field(pattern=_CLOCK)]
QuietHours = Annotated[str, Field(pattern=_QUIET)]
Line = Annotated[str, Field(pattern=_LINE)]
MailAddress = Annotated[str, Field(pattern=_LINE), AfterValidator(_mail_address)]
"""An e-mail address, also with a name, as ``Ann <ann@example.org>``."""
Domain = Annotated[str, Field(pattern=_DOMAIN, max_length=200)]
TableName = Annotated[str, Field(pattern=_TABLE, max_length=127)]
ConfigPath = Annotated[Path, AfterValidator(_relative_to_file)]
"""A path, relative to the folder of the file."""
StoreAddress = Annotated[InstanceOf[Path] | InstanceOf[ServerUrl], BeforeValidator(_store)]
"""The store: a path, relative to the folder of the file, or the URL of a server."""
DatabaseAddress = Annotated[InstanceOf[Path] | InstanceOf[ServerUrl], BeforeValidator(_database)]
"""A database: a path, relative to the folder of the file, or the URL of a server."""
TemplatesFolder = Annotated[ConfigPath, AfterValidator(checked_folder)]
"""A folder of templates, relative to the folder of the file."""


class Section(BaseModel):
    """A table of the file, which refuses unknown keys."""

    model_config = ConfigDict(extra="forbid", frozen=True)
