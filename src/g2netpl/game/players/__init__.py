"""The label players, one per file: what each method proposes for labels nobody observed."""
