"""What a reader sees: tables, plots, pages and the first page."""
