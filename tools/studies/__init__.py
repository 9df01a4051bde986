"""The trainings that make the tables in notebooks/measured: hours for some, so no lesson runs them."""
