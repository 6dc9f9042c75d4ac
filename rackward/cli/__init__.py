"""The commands of the tool. What they share: options, output, and asking before a change."""
