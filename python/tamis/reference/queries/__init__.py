"""The papers' algorithms for queries: brute force, cacheable units, grouped filters, k-index, BE-tree and BDD."""
