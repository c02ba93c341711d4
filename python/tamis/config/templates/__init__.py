"""Reads a folder of templates, which say how e-mails and webhooks look, and tries each when the configuration is read.

Templates are Jinja's, in its sandbox: they see the notification, and neither Python nor files outside the folder."""

from __future__ import annotations

from tamis.config.templates.fields import ALONE, TOGETHER, TemplateFields, sample
from tamis.config.templates.folder import Templates, checked_folder, templates_of

__all__ = ["ALONE", "TOGETHER", "TemplateFields", "Templates", "checked_folder", "sample", "templates_of"]
