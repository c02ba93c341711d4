//! Tokens of the selector language.
