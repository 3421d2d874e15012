"""What is made of records: the plan of profile `lab`, its claims and their tests."""
