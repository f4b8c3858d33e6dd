"""Arrays, checks at the door, exact algebra, the order of rows, words for people: no statistics."""
