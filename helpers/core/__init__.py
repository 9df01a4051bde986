"""What the series builds: read these files after notebook 08. Every room may import it; it imports support only."""
