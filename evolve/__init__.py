"""What a person runs: the command line, settings, the search loop, its operators, run folders."""
