//! The engine: many subscriptions, and all that a message satisfies.
