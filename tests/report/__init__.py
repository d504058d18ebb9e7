"""Tests of what people look at: the page, its viewer and the decision trees."""
