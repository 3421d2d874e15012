"""The numbers that the paper and its companions print, as data, and their reader."""
