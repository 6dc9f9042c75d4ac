"""The what-if: the traffic that groups would have had with other assignments."""
