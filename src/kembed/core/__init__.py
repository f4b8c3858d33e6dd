"""Arrays, input validation, linear algebra, the order of rows, files and text: no statistics."""
