"""A batch that many tasks stage: what a task does, what it answers, how the answers are judged together and committed."""
