"""What a run is asked to do: options, the table of candidates, the predictor, the contract and the request."""
