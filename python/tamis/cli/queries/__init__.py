"""Commands for queries: match, explain, analyze, backtest, check, and those of a store."""
