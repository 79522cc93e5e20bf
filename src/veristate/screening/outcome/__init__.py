"""What a run ends with: facts, the result told from them, and the files a laboratory takes on."""
