"""What runs where and when: placements, memory tables and plans. Nothing is started here."""
