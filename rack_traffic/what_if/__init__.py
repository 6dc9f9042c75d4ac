"""What another assignment would have read across racks, and cost, group by group."""
