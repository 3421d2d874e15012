"""What is run by hand and is no part of the library: pilot, power and plan of the registered
experiment; the data's manifest; the fixture of tests and notebooks; seeded mutations."""
