"""What a reader calls: results of all experiments, ours beside the paper's, an effect and a
word, figures, and a live run."""
