"""Three small tables in the shape of MLE-bench's competitions, made from data that come with scikit-learn."""
