"""Bodies pretrained here on text or on a task, from data to a folder of weights."""
