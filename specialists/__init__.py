"""Who does the work: workers with a contract, their tools, and the reference teams."""
