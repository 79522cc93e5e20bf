"""A pipeline of three stages over HotpotQA-format questions, to commit to and to challenge: retrieve, read, answer."""
