"""All relabelings at once: kernel matrices in rectangles or low rank, statistics, nulls, fusion."""
