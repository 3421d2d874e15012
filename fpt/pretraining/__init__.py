"""Backbones pretrained here on a corpus or a task, from data to a folder of weights."""
