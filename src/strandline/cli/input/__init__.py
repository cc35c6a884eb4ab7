"""Input of commands: arguments, standard input, confirmations and the prompt."""
