"""What each notebook shows: its arms, comparisons and claims, and the runs behind them."""
