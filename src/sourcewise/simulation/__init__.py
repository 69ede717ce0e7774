"""Known worlds, and the very estimator, allocation and policies of a campaign in thousands of replications of them."""
