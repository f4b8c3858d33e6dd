"""Where two samples differ, in which columns, by how much; everything in one call."""
