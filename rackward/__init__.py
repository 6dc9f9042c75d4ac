"""What touches a live cluster or a person: clusters, and the command line."""
