"""The scripts of the registered experiment, run in this order: pilot, power, plan."""
