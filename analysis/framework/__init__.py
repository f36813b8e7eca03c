"""What the analysis commands share."""
