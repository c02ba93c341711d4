"""The papers' algorithms for topic patterns: inverted bitmaps, trie, lazy DFA, cache and index per word."""
